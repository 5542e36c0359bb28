"""``/v1/live``: live tables, and their changes as plain server-sent events."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from trunkline.broker.stream import Heartbeat, Reset
from trunkline.core.errors import Invalid, PositionTrimmed
from trunkline.gateway import scalars, sse
from trunkline.gateway.auth import token_of
from trunkline.gateway.openapi import answer, streamed
from trunkline.gateway.parameters import known_parameters
from trunkline.gateway.problems import problem
from trunkline.gateway.reading import read_json
from trunkline.gateway.rendering import Answer
from trunkline.live.models import LiveColumn

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

    from trunkline.gateway.feeds import Feed
    from trunkline.gateway.gateway import Gateway
    from trunkline.live.models import LiveBatch, LiveChange, LiveTable

Telling: TypeAlias = "dict[str, Callable[[Any], Any]]"
"""How each column of a table is told."""

router = APIRouter(prefix="/v1/live", tags=["live"], dependencies=[Depends(known_parameters)])

_TABLE = {
    "name": str,
    "relation": str,
    "key": [str],
    "comment": str | None,
    "columns": [LiveColumn],
}
_PART = 1 << 16  # characters that are sent at once
_RETRY = 2_000  # milliseconds after which a browser comes again


@router.get("", summary="The live tables", responses=answer([_TABLE]))
async def list_tables(request: Request) -> Response:
    """The live tables and columns that the role of the token may select."""
    gateway: Gateway = request.app.state.gateway
    identity = await gateway.admit(token_of(request))
    tables = await gateway.catalogue.tables(identity.role, again=True)
    return Answer([_described(table) for table in tables])


@router.get(
    "/{table:path}", summary="Follow a table", response_class=Response, responses=streamed()
)
async def follow(
    request: Request,
    table: str,
    condition: Annotated[
        str | None, Query(description='By column: {"org_id": {"eq": 7}}. None: all rows.')
    ] = None,
    changes: Annotated[
        str | None, Query(description="Some of created,updated,deleted,left. None: all.")
    ] = None,
    columns: Annotated[
        str | None, Query(description="Tell of an update only when one of these changed.")
    ] = None,
    after: Annotated[str | None, Query(description="Go on after the event with this id.")] = None,
    last_event_id: Annotated[str | None, Header(description="As after; it wins.")] = None,
) -> Response:
    """Server-sent events named `created`, `updated`, `entered`, `deleted`, `left`, `truncated`.

    `reset` says that events between the last one and now are gone: load anew. `error` is the last
    one, with a problem.
    """
    gateway: Gateway = request.app.state.gateway
    identity = await gateway.admit(token_of(request))
    found = await gateway.catalogue.find(table)
    asked = None if condition is None else read_json(condition, "condition")
    if not isinstance(asked, dict | None):
        raise Invalid("condition is a JSON object by column.")
    wanted: dict[str, Any] = {
        "condition": asked,
        "changes": _words(changes),
        "columns": _words(columns),
    }
    open_ = partial(gateway.open, identity, found.relation, **wanted)
    telling = {column.name: scalars.told(column) for column in found.columns}
    try:
        return await sse.EventStream.begin(
            _frames(open_(after=last_event_id or after), telling=telling)
        )
    except PositionTrimmed as error:
        return await sse.EventStream.begin(_frames(open_(), telling=telling, lost=error.message))


async def _frames(
    opening: AbstractAsyncContextManager[Feed], *, telling: Telling, lost: str | None = None
) -> AsyncGenerator[str, None]:
    async with opening as feed:
        yield f"retry: {_RETRY}\nid: {feed.token}\n\n"
        if lost is not None:
            yield sse.frame({"reason": lost}, event="reset", token=feed.token)
        try:
            async with aclosing(feed.items()) as items:
                async for item in items:
                    for text in _texts(item, telling):
                        yield text
        except Exception as error:  # noqa: BLE001 - told to whoever reads
            yield sse.frame(problem(error), event="error")


def _texts(item: LiveBatch | Heartbeat | Reset, telling: Telling) -> Iterator[str]:
    """What is sent for an item; many changes in parts, so that a slow reader holds one of them."""
    if isinstance(item, Heartbeat):
        yield f"id: {item.token}\n{sse.COMMENT}"
    elif isinstance(item, Reset):
        yield sse.frame({"reason": item.reason}, event="reset", token=item.token)
    else:
        text = ""
        for change in item.changes:
            text += sse.frame(_told(change, telling), event=change.change.value, token=change.token)
            if len(text) > _PART:
                yield text
                text = ""
        yield text


def _told(change: LiveChange, telling: Telling) -> dict[str, Any]:
    def columns(values: dict[str, Any] | None) -> dict[str, Any] | None:
        return values and {
            name: telling[name](value) if name in telling else value
            for name, value in values.items()
        }

    return {
        "change": change.change.value,
        "key": columns(change.key),
        "row": columns(change.row),
        "patch": columns(change.patch),
        "at": change.at.isoformat(),
    }


def _described(table: LiveTable) -> dict[str, Any]:
    return {
        "name": table.name,
        "relation": table.relation,
        "key": table.key_columns,
        "comment": table.comment,
        "columns": [
            {**asdict(column), "kind": column.kind.value, "labels": list(column.labels)}
            for column in table.columns
        ],
    }


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word for part in text.split(",") if (word := part.strip())]
