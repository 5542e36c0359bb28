"""``/v1/kv``: keys and values. A key is the rest of the path, a value the whole body."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import Field

from trunkline.core import durations
from trunkline.core.errors import Conflict, Invalid, NotFound
from trunkline.core.unread import Unread
from trunkline.gateway import sse
from trunkline.gateway.bodies import Body, Duration, expected
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.gateway import HEARTBEAT
from trunkline.gateway.kv_stream import KvItem, KvStream
from trunkline.gateway.openapi import answer, streamed
from trunkline.gateway.reading import read_json
from trunkline.gateway.rendering import Answer, row, rows
from trunkline.kv import calls, models

if TYPE_CHECKING:
    import psycopg

    from trunkline.core.calls import Call
    from trunkline.gateway.callers import Caller
    from trunkline.kv.models import KvEntry

router = APIRouter(prefix="/v1", tags=["kv"])

Key = Annotated[str, Path(description="The key; it may have slashes.", examples=["user:1"])]
Namespace = Annotated[str, Query(description="The namespace.")]
_CHANGED = {"key": str, "answer": str}
_EXPIRES = "Trunkline-Expires-At"
_TAGS = re.compile(r'"[^"]+"')


class Stale(Conflict):
    """The key has another version than the one that was expected."""

    code = "TL412"


class Lasting:
    """How long a value lasts, from the query."""

    def __init__(
        self,
        ttl: Annotated[str | None, Query(description="It expires after so long: 7d.")] = None,
        policy: Annotated[str | None, Query(description="A policy of its namespace.")] = None,
    ):
        self.given: dict[str, Any] = {
            "ttl": None if ttl is None else durations.parse(ttl, name="ttl"),
            "policy": policy,
        }


class Expected:
    """Which version must be there, from the headers; None: any, or none."""

    def __init__(
        self,
        if_match: Annotated[str | None, Header(description="Only if this is its ETag.")] = None,
        if_none_match: Annotated[str | None, Header(description="*: only if it is new.")] = None,
    ):
        self.version: str | None = None
        if if_match is not None and if_none_match is not None:
            raise Invalid("If-Match or If-None-Match, not both.")
        if if_none_match is not None:
            if if_none_match.strip() != "*":
                raise Invalid(f"If-None-Match is * here, got {if_none_match[:80]}.")
            self.version = ""
        elif if_match is not None:
            self.version = _version(if_match)


def no_expectation(
    if_match: Annotated[str | None, Header()] = None,
    if_none_match: Annotated[str | None, Header()] = None,
) -> None:
    """What adds up asks for no version: to pass over what a client expects would be worse."""
    if if_match is not None or if_none_match is not None:
        raise Invalid("numbers are added whatever is there: leave If-Match and If-None-Match out.")


class Values(Body):
    """Values of many keys, put at once."""

    values: Annotated[
        dict[str, Any], Field(min_length=1, max_length=1_000, examples=[{"user:1": {"age": 7}}])
    ]
    ttl: Duration | None = None
    policy: str | None = None


@router.get(
    "/kv",
    summary="Keys that begin with a prefix",
    responses=answer({"entries": [models.KvEntry], "next": str | None}),
)
async def scan(
    me: Me,
    prefix: str = "",
    after: Annotated[str, Query(description="Keys after this one.")] = "",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    key: Annotated[
        list[str] | None, Query(max_length=1_000, description="These keys instead; repeated.")
    ] = None,
    namespace: Namespace = "default",
) -> Response:
    """In order, with their versions, and the key to go on after; none: that is all."""
    if key is not None:
        call = calls.get_many(key, namespace=namespace)
    else:
        call = calls.scan(prefix, namespace=namespace, after_key=after, max_keys=limit)
    found = await me.run(replace(call, json_text=True))
    more = key is None and len(found) == limit
    return Answer({"entries": rows(found), "next": found[-1].key if more else None})


@router.post("/kv", summary="Put many values", responses=answer({"answers": dict[str, str]}))
async def put_many(me: Me, what: Values, namespace: Namespace = "default") -> Response:
    """In one transaction; answers INSERT or UPDATE for each key."""
    call = calls.put_many(what.values, namespace=namespace, policy=what.policy, ttl=what.ttl)
    return Answer({"answers": await me.run(call)})


@router.get("/kv-watch", summary="Follow keys", responses=streamed())
async def watch(
    me: Me,
    prefix: str = "",
    namespace: Namespace = "default",
    after: Annotated[str | None, Query(description="Go on after the change with this id.")] = None,
    last_event_id: Annotated[str | None, Header(description="As after; it wins.")] = None,
) -> Response:
    """Server-sent events `put` and `delete`, as keys change in any zone.

    A key that changes often is told with what it says last. `reset` says that changes are lost:
    read the keys anew.
    """
    found = KvStream(
        me.crowd,
        me.listener,
        prefix,
        namespace=namespace,
        after=last_event_id or after,
        heartbeat=HEARTBEAT,
    )
    return await me.follow(found, _frame)


@router.get("/kv/{key:path}", summary="The value of a key", responses=answer(Any, more={304: None}))
async def get(
    me: Me,
    key: Key,
    namespace: Namespace = "default",
    if_none_match: Annotated[str | None, Header(description="304 if this is its ETag.")] = None,
) -> Response:
    """As JSON; its version is the ETag. 404 when it is not there."""
    entry = await _entry(me, key, namespace)
    if entry is None:
        raise NotFound(f'there is no key "{key}".')
    headers = _headers(entry)
    if if_none_match is not None and _names(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Answer(entry.value, headers=headers)


@router.put(
    "/kv/{key:path}",
    summary="Put a value under a key",
    openapi_extra=expected({"application/json": {"schema": {}, "example": {"name": "Ann"}}}),
    responses=answer(_CHANGED, more={201: _CHANGED}),
)
async def put(
    me: Me,
    key: Key,
    request: Request,
    lasting: Annotated[Lasting, Depends()],
    expecting: Annotated[Expected, Depends()],
    namespace: Namespace = "default",
) -> Response:
    """201 if it is new, 200 if not; 412 if it is not what was expected."""
    raw = await request.body()
    read_json(raw, parse_int=str, parse_float=str)
    call = calls.put(
        key,
        Unread(raw.decode()),  # as it came: its numbers keep the digits that Python's would lose
        namespace=namespace,
        if_version=expecting.version,
        **lasting.given,
    )
    return await _change(me, call, key, namespace)


@router.patch(
    "/kv/{key:path}",
    summary="Add numbers to fields",
    dependencies=[Depends(no_expectation)],
    openapi_extra=expected(
        {"application/json": {"schema": {"type": "object"}, "example": {"views": 1, "old": None}}}
    ),
    responses=answer(_CHANGED, more={201: _CHANGED}),
)
async def patch(
    me: Me,
    key: Key,
    request: Request,
    lasting: Annotated[Lasting, Depends()],
    namespace: Namespace = "default",
) -> Response:
    """What zones add at the same time adds up; null removes a field."""
    offsets = read_json(await request.body(), parse_float=Decimal)
    if not isinstance(offsets, dict):
        raise Invalid('body: it is an object of numbers, as in {"views": 1}.')
    call = calls.patch_numeric(key, offsets, namespace=namespace, **lasting.given)
    return await _change(me, call, key, namespace)


@router.delete("/kv/{key:path}", summary="Delete a key", responses=answer(_CHANGED))
async def delete(
    me: Me, key: Key, expecting: Annotated[Expected, Depends()], namespace: Namespace = "default"
) -> Response:
    """Everywhere; answers UPDATE, or INSERT when it was not there."""
    call = calls.delete(key, namespace=namespace, if_version=expecting.version)
    return await _change(me, call, key, namespace)


async def _change(me: Caller, call: Call[str], key: str, namespace: str) -> Response:
    """Make a change, and tell the version that it made."""
    async with me.db.transaction() as connection:
        answer = await me.db.run(call, on=connection)
        entry = await _entry(me, key, namespace, on=connection)
    if answer == "CONFLICT":
        there = "it is not there" if entry is None else f"it has the version {entry.version}"
        raise Stale(
            f'the key "{key}" is not what was expected: {there}.',
            hint="Read it, and try again with its ETag.",
        )
    headers = {} if entry is None else _headers(entry)
    status = 201 if answer == "INSERT" and entry is not None else 200
    return Answer({"key": key, "answer": answer}, status, headers)


async def _entry(
    me: Caller, key: str, namespace: str, *, on: psycopg.AsyncConnection[Any] | None = None
) -> KvEntry | None:
    call = replace(calls.get_many([key], namespace=namespace), json_text=True)
    found = await me.db.run(call, on=on)
    return found[0] if found else None


def _headers(entry: KvEntry) -> dict[str, str]:
    found = {"ETag": f'"{entry.version}"'}
    if entry.expires_at is not None:
        found[_EXPIRES] = entry.expires_at.isoformat()
    return found


def _names(header: str, tag: str) -> bool:
    """Whether If-None-Match names a version: compared as what may be weak."""
    return header.strip() == "*" or tag in _TAGS.findall(header)


def _version(header: str) -> str:
    found = header.strip()
    if not _TAGS.fullmatch(found):
        raise Invalid(
            f"If-Match is one ETag of a value, got {header[:80]}.", hint='For example: "123-4".'
        )
    return found[1:-1]


def _frame(item: KvItem) -> str:
    gone = item.change.value is None
    told = row(item.change, without=("up_to", "value", "expires_at") if gone else ("up_to",))
    return sse.frame(told, token=item.token, event="delete" if gone else "put")
