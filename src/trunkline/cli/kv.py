"""``trunkline kv``: keys and values, and what becomes of them."""

import asyncio
import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from trunkline.cli.following import follow, format_of
from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command, run_async
from trunkline.cli.output import Format, open_stream, print_rows, say
from trunkline.cli.stopping import until_told
from trunkline.core.unread import JsonText
from trunkline.core.words import counted

if TYPE_CHECKING:
    from datetime import timedelta

    from trunkline.cli.invocation import Session
    from trunkline.kv.models import KvChange, KvEntry
    from trunkline.platform import Platform

    Found = TypeVar("Found", KvChange, KvEntry)

app = commands("Keys and values that every zone may write, converging everywhere.")

Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]
Prefix = Annotated[
    str, typer.Argument(metavar="PREFIX", help="Prefix of the keys; without it, all.")
]
Namespace = Annotated[str, typer.Option(metavar="NAME", help="The namespace.")]
Policy = Annotated[
    str | None,
    typer.Option(metavar="POLICY", help="It expires by this policy of its namespace."),
]
Ttl = Annotated[str | None, typer.Option(metavar="DURATION", help="Time until it expires.")]
IfVersion = Annotated[
    str | None,
    typer.Option(
        metavar="VERSION", help="Only if this is the current version; '': if there is no such key."
    ),
]

_ENTRY = ("key", "value", "version", "expires_at")
_CHANGE = ("up_to", "key", "value", "version")
_OFFSET = re.compile(r"null|-?(?:0|[1-9]\d{0,300})(?:\.\d+)?(?:[eE][-+]?\d{1,2})?", re.ASCII)
_PAGE = 1_000  # keys that are read, or written in one transaction


@command(app, example="trunkline kv get user:1", reads=True, panel="Keys")
def get(invocation: Invocation, key: Key, namespace: Namespace = "default") -> None:
    """Show a key: value, version, expiry; exit code 3 if it does not exist."""
    from trunkline.core.errors import NotFound
    from trunkline.kv import calls

    with invocation.session() as session:
        call = calls.get_many([key], namespace=namespace)
        found = session.run(replace(call, json_text=True))
    if not found:
        raise NotFound(f'there is no key "{key}".')
    invocation.print_one(_safe(found[0], namespace), columns=_ENTRY)


@command(
    app, example="""trunkline kv put user:1 '{"name": "Ann"}' --ttl 7d""", reads=True, panel="Keys"
)
def put(
    invocation: Invocation,
    key: Key,
    value: Annotated[
        str, typer.Argument(metavar="JSON", help="The value; - reads it from standard input.")
    ],
    ttl: Ttl = None,
    policy: Policy = None,
    if_version: IfVersion = None,
    namespace: Namespace = "default",
) -> None:
    """Put a value under a key: INSERT, UPDATE, or CONFLICT with exit code 4."""
    from trunkline.cli import inputs
    from trunkline.kv import calls

    given = inputs.json_text(_stdin() if value == "-" else value, name="the value")
    call = calls.put(
        key, given, namespace=namespace, policy=policy, ttl=_ttl(ttl), if_version=if_version
    )
    with invocation.session() as session:
        _answer(invocation, key, session.run(call))


@command(app, example="trunkline kv delete user:1", reads=True, panel="Keys")
def delete(
    invocation: Invocation,
    key: Key,
    if_version: IfVersion = None,
    namespace: Namespace = "default",
) -> None:
    """Delete a key everywhere: UPDATE, INSERT if there was none, or CONFLICT with exit code 4."""
    from trunkline.kv import calls

    with invocation.session() as session:
        answer = session.run(calls.delete(key, namespace=namespace, if_version=if_version))
        _answer(invocation, key, answer)


@command(
    app, example="trunkline kv patch page:1 views=1 likes=-2 old=null", reads=True, panel="Keys"
)
def patch(
    invocation: Invocation,
    key: Key,
    offsets: Annotated[
        list[str],
        typer.Argument(metavar="FIELD=NUMBER", help="Numbers to add; null removes a field."),
    ],
    ttl: Ttl = None,
    policy: Policy = None,
    namespace: Namespace = "default",
) -> None:
    """Add numbers to fields of a key; concurrent additions of zones add up."""
    from trunkline.kv import calls

    call = calls.patch_numeric(
        key, _offsets(offsets), namespace=namespace, policy=policy, ttl=_ttl(ttl)
    )
    with invocation.session() as session:
        _answer(invocation, key, session.run(call))


@command(app, example="trunkline kv scan user: --limit 10", reads=True, panel="Keys")
def scan(
    invocation: Invocation,
    prefix: Prefix = "",
    after: Annotated[str, typer.Option(metavar="KEY", help="Only what follows this key.")] = "",
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Stop after N keys.")
    ] = None,
    namespace: Namespace = "default",
) -> None:
    """List keys with a prefix, in order."""
    seen = 0

    def counting(rows: "Iterator[KvEntry]") -> "Iterator[KvEntry]":
        nonlocal seen
        for row in rows:
            seen += 1
            yield row

    with invocation.session() as session:
        rows = _pages(session, prefix, namespace, after, limit)
        print_rows(counting(rows), invocation.format, columns=_ENTRY)
    if not seen and invocation.format is Format.TABLE:
        say("No keys.")


@command(
    app,
    "put-many",
    example="""echo '{"key": "a", "value": 1}' | trunkline kv put-many""",
    reads=True,
    panel="Keys",
)
def put_many(
    invocation: Invocation, ttl: Ttl = None, policy: Policy = None, namespace: Namespace = "default"
) -> None:
    """Put keys from standard input, one JSON object with key and value per line."""
    from trunkline.kv import calls

    lasting, total = _ttl(ttl), 0
    with invocation.session() as session:
        try:
            for values in _batches():
                session.run(calls.put_many(values, namespace=namespace, policy=policy, ttl=lasting))
                total += len(values)
        except BaseException:
            if total:
                say(f"It ended early; {counted(total, 'key is', 'keys are')} stored.")
            raise
    invocation.print_one({"keys": total})


@command(app, example="trunkline kv watch user: --limit 3", reads=True, panel="Keys")
def watch(
    invocation: Invocation,
    prefix: Prefix = "",
    after: Annotated[
        int | None,
        typer.Option("--from", metavar="POSITION", min=0, help="Go on after what was seen."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Stop after N changes.")
    ] = None,
    namespace: Namespace = "default",
) -> None:
    """Print keys as they change in any zone, until interrupted."""
    run_async(until_told(partial(_watch, invocation, prefix, namespace, after, limit)))


async def _watch(
    invocation: Invocation,
    prefix: str,
    namespace: str,
    after: int | None,
    limit: int | None,
    stop: asyncio.Event,
) -> None:
    form = format_of(invocation)
    async with invocation.platform() as platform:
        from trunkline.kv.models import KvChange

        columns = _CHANGE if form is Format.TABLE else tuple(each.name for each in fields(KvChange))
        changes = platform.kv.watch(prefix, namespace=namespace, after=after)
        shown = (_safe(change, namespace) async for change in changes)
        await follow(
            shown,
            open_stream(form, columns),
            limit=limit,
            beside=_number(platform, stop),
            stop=stop,
        )


async def _number(platform: "Platform", stop: asyncio.Event) -> None:
    """Where nobody numbers changes, we do, if we may."""
    from trunkline.core.errors import Forbidden
    from trunkline.core.service import Loop
    from trunkline.kv.services import KvSequencer

    with suppress(Forbidden):
        await platform.kv.tick()
        await Loop(KvSequencer(platform.db)).run(stop)


def _pages(
    session: "Session", prefix: str, namespace: str, after: str, limit: int | None
) -> "Iterator[KvEntry]":
    """Keys with a prefix, one part after the other."""
    from trunkline.kv import calls

    while limit is None or limit > 0:
        wanted = _PAGE if limit is None else min(limit, _PAGE)
        call = calls.scan(prefix, namespace=namespace, after_key=after, max_keys=wanted)
        found = session.run(replace(call, json_text=True))
        yield from (_safe(entry, namespace) for entry in found)
        if len(found) < wanted:
            return
        after = found[-1].key
        limit = None if limit is None else limit - wanted


def _safe(found: "Found", namespace: str) -> "Found":
    """What is read, without the passwords in what belongs to the parade."""
    from trunkline.core.telemetry import redact

    if namespace != "parade" or found.value is None:
        return found
    text = found.value if isinstance(found.value, JsonText) else json.dumps(found.value)
    return replace(found, value=JsonText(redact(text)))


def _batches() -> Iterator[dict[str, Any]]:
    """What standard input says, so much at a time as fits one transaction."""
    values: dict[str, Any] = {}
    for number, line in enumerate(_input(), start=1):
        if line.strip():
            key, value = _key_and_value(line, f"line {number}")
            values[key] = value
        if len(values) == _PAGE:
            yield values
            values = {}
    if values:
        yield values


def _key_and_value(line: str, name: str) -> tuple[str, Any]:
    from trunkline.cli import inputs
    from trunkline.core.errors import Invalid

    row = inputs.json_value(line, name=name)
    if (
        not isinstance(row, dict)
        or not {"key", "value"} <= row.keys()
        or type(row["key"]) is not str
    ):
        raise Invalid(
            f"{name} is not an object with a key and a value, got {line.strip():.80}.",
            hint="""For example: {"key": "user:1", "value": {"name": "Ann"}}""",
        )
    if strange := sorted(row.keys() - {"key", "value"}):
        raise Invalid(
            f'{name} has "{strange[0]}" beside its key and its value.',
            hint="""A line is {"key": ..., "value": ...}; --ttl and --policy are for all lines.""",
        )
    return row["key"], row["value"]


def _offsets(pairs: list[str]) -> dict[str, Any]:
    from trunkline.core.errors import Invalid

    found: dict[str, Any] = {}
    for pair in pairs:
        field, _, text = pair.rpartition("=")
        if not field or not _OFFSET.fullmatch(text):
            raise Invalid(
                f'a patch takes field=number, got "{pair}".',
                hint="For example: views=1 likes=-2 old=null, where null removes the field.",
            )
        if field in found:
            raise Invalid(f'field "{field}" is named twice.')
        found[field] = None if text == "null" else Decimal(text)
    return found


def _ttl(text: str | None) -> "timedelta | None":
    from trunkline.cli import inputs

    return None if text is None else inputs.duration(text, option="--ttl")


def _input() -> Iterator[str]:
    from trunkline.core.errors import BadRequest

    if sys.stdin is None:
        raise BadRequest("standard input is closed.", hint="Give JSON there.")
    yield from sys.stdin


def _stdin() -> str:
    return "".join(_input())


def _answer(invocation: Invocation, key: str, answer: str) -> None:
    invocation.print_one({"key": key, "answer": answer})
    if answer == "CONFLICT":
        raise typer.Exit(4)
