"""``trunkline log append``, ``read`` and ``consume``: messages in and out."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.invocation import Invocation, command, run_async
from trunkline.cli.log import Group, Partition, Topic
from trunkline.cli.output import Format, Writer, open_stream, say

if TYPE_CHECKING:
    from datetime import datetime

    from trunkline.log.consumer import Batch, Consumer
    from trunkline.log.models import Message
    from trunkline.platform import Platform

FIELDS = ("topic", "partition", "offset", "at", "key", "value", "headers")

_FOR_PEOPLE = ("partition", "offset", "at", "key", "value")
_MOST = 1_000  # messages in one batch
_LOOK_AGAIN = 0.25  # seconds

Print = Annotated[
    str | None,
    typer.Option("--print", metavar="NAMES", help=f"What to show, of {','.join(FIELDS)}."),
]
Raw = Annotated[
    bool, typer.Option("--raw", help="The values alone, as they are, one per line.")
]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Stop after N messages.")
]
Where = 'earliest, latest, an offset, a time, or "2h ago".'


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, example="seq 10 | trunkline log append numbers", reads=True)(append)
    command(app, example="trunkline log read orders --from 120 --limit 10", reads=True)(read)
    example = "trunkline log consume orders --group billing --follow --print key,value"
    command(app, example=example, reads=True)(consume)


def append(
    invocation: Invocation,
    topic: Topic,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", exists=True, dir_okay=False, help="Instead of stdin."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", help="The key of every message.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help=r"Lines are key, separator, value; \t is a tab."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="May be repeated.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="N", help="All go there.")
    ] = None,
    codec: Annotated[
        str | None, typer.Option(metavar="none|zstd", help="Else what the topic says.")
    ] = None,
    tombstones: Annotated[
        bool, typer.Option("--tombstones", help="An empty value is null: it deletes its key.")
    ] = False,
) -> None:
    """Append lines of standard input, or of a file, as messages."""
    from trunkline.cli import inputs
    from trunkline.cli.append import Appending, Shape, append_lines
    from trunkline.core.errors import BadRequest

    if key is not None and key_separator is not None:
        raise BadRequest("--key and --key-separator say two things about keys.")
    shape = Shape(
        key=None if key is None else key.encode(),
        separator=None if key_separator is None else inputs.separator(key_separator),
        headers=inputs.headers(header),
        partition=partition,
        tombstones=tombstones,
    )
    appending = Appending(topic, shape)
    try:
        run_async(append_lines(invocation, appending, file=file, codec=codec))
    finally:
        if appending.stored or sys.exc_info()[0] is None:
            invocation.print(appending.summary())


def read(
    invocation: Invocation,
    topic: Topic,
    partition: Partition = None,
    start: Annotated[
        str | None, typer.Option("--from", metavar="PLACE", help=f"{Where} Else earliest.")
    ] = None,
    last: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="The last N of each partition.")
    ] = None,
    limit: Limit = None,
    columns: Print = None,
    raw: Raw = False,
) -> None:
    """Read messages up to what is there now, without a group."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest

    if start is not None and last is not None:
        raise BadRequest("--from and --last name two places to begin.")
    place = inputs.start(start or "earliest")
    printer = _Printer(invocation, columns, raw=raw)
    try:
        run_async(_read(invocation, topic, partition, place, last, limit, printer))
    finally:
        printer.close()


async def _read(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    place: "str | int | datetime",
    last: int | None,
    limit: int | None,
    printer: "_Printer",
) -> None:
    async with invocation.platform() as platform:
        parts = {part.partition: part for part in await platform.log.describe(topic)}
        for number in parts if partition is None else [partition]:
            part = parts.get(number)
            if part is None or isinstance(place, int):
                first = place if isinstance(place, int) else 1  # what is wrong, the log says
            elif last is not None:
                first = max(part.first_offset, part.last_offset - last + 1)
            elif isinstance(place, str):
                first = part.first_offset if place == "earliest" else part.last_offset + 1
            else:
                first = await platform.log.offset_at(topic, number, place)
            rest = None if limit is None else limit - printer.count
            await printer.print_all(platform.log.read(topic, number, start=first, limit=rest))


def consume(
    invocation: Invocation,
    topic: Topic,
    group: Group,
    mode: Annotated[
        str, typer.Option(metavar="assigned|shared", help="How members share the work.")
    ] = "assigned",
    delivery: Annotated[
        str,
        typer.Option(metavar="at-least-once|at-most-once", help="Commit after or before printing."),
    ] = "at-least-once",
    start: Annotated[
        str, typer.Option("--from", metavar="PLACE", help=f"Where a new group begins: {Where}")
    ] = "earliest",
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more; ctrl-C ends it.")
    ] = False,
    limit: Limit = None,
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Without --follow: end when none came for so long."),
    ] = 1.0,
    columns: Print = None,
    raw: Raw = False,
) -> None:
    """Consume messages for a group, committing what was printed."""
    from trunkline.cli import inputs
    from trunkline.cli.consume import Consuming, consume_all

    consuming = Consuming(
        topic=topic,
        group=group,
        mode=mode,
        delivery=delivery,
        start=inputs.start(start),
        wait=None if follow else wait,
        limit=limit,
    )
    printer = _Printer(invocation, columns, raw=raw, endless=follow)
    try:
        run_async(consume_all(invocation, consuming, printer.print))
    finally:
        printer.close()
