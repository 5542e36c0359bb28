"""``trunkline log read`` and ``consume``: messages come out."""

import asyncio
import sys
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Self

import typer

from trunkline.cli.invocation import Invocation, command, flag, run_async
from trunkline.cli.log import Group, Partition, Topic
from trunkline.cli.output import Format, Writer, open_stream, say
from trunkline.cli.stopping import until_told

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trunkline.log.consumer import Batch, Consumer
    from trunkline.log.models import Message, Start
    from trunkline.log.models import Partition as Part
    from trunkline.platform import Platform

FIELDS = ("topic", "partition", "offset", "at", "key", "value", "headers")

_FOR_PEOPLE = ("partition", "offset", "at", "key", "value")
_MOST = 1_000  # messages that are printed, then committed, at once
_PLACES = 'earliest, hot (not archived), latest, an offset, a time, or "2h ago".'

Print = Annotated[
    str | None,
    typer.Option("--print", metavar="NAMES", help=f"What to show, of {', '.join(FIELDS)}."),
]
Raw = Annotated[bool, flag("--raw", help="Print only the values, unchanged, one per line.")]
Limit = Annotated[
    int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Stop after N messages.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(
        app, example="trunkline log read orders --from 120 --limit 10", reads=True, panel="Messages"
    )(read)
    example = "trunkline log consume orders --group billing --follow --print key,value"
    command(app, example=example, reads=True, panel="Messages")(consume)


def read(
    invocation: Invocation,
    topic: Topic,
    partition: Partition = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="PLACE", help=f"Where to begin, default earliest: {_PLACES}"
        ),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Instead of --from: the last N of each partition."),
    ] = None,
    limit: Limit = None,
    columns: Print = None,
    raw: Raw = False,
) -> None:
    """Read messages up to the current end, without a group."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest

    if start is not None and last is not None:
        raise BadRequest("--from and --last say two things.", hint="Leave one out.")
    place = inputs.start(start or "earliest")
    with Printer(invocation, columns, raw=raw) as printer:
        run_async(_read(invocation, topic, partition, place, last, limit, printer))
    _say_nothing_came(invocation, printer, raw=raw)


async def _read(
    invocation: Invocation,
    topic: str,
    partition: int | None,
    place: "Start",
    last: int | None,
    limit: int | None,
    printer: "Printer",
) -> None:
    async with invocation.platform() as platform:
        parts = await platform.log.describe(topic)
        for part in _chosen(parts, place) if partition is None else _only(parts, topic, partition):
            first = place if last is None else max(part.earliest, part.last_offset - last + 1)
            rest = None if limit is None else limit - printer.count
            gathered = []
            async for message in platform.log.read(topic, part.partition, start=first, limit=rest):
                gathered.append(message)
                if len(gathered) == _MOST:
                    printer.print(gathered)
                    gathered.clear()
            printer.print(gathered)


def _chosen(parts: "list[Part]", place: "Start") -> "list[Part]":
    """An offset need not be in every partition; where it is in none, reading says so."""
    if not isinstance(place, int):
        return parts
    return [part for part in parts if place <= part.last_offset + 1] or parts


def _only(parts: "list[Part]", topic: str, partition: int) -> "list[Part]":
    from trunkline.core.errors import NotFound

    found = [part for part in parts if part.partition == partition]
    if not found:
        raise NotFound(f'topic "{topic}" has partitions 0 to {len(parts) - 1}, got {partition}.')
    return found


def consume(
    invocation: Invocation,
    topic: Topic,
    group: Group,
    mode: Annotated[
        str, typer.Option(metavar="assigned|shared", help="How members share the work.")
    ] = "assigned",
    delivery: Annotated[
        str,
        typer.Option(
            metavar="at-least-once|at-most-once", help="Commit after printing, or before."
        ),
    ] = "at-least-once",
    start: Annotated[
        str, typer.Option("--from", metavar="PLACE", help=f"Where a new group begins: {_PLACES}")
    ] = "earliest",
    follow: Annotated[bool, flag("--follow", help="Wait for more until ctrl-C.")] = False,
    limit: Limit = None,
    wait: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="How long to wait for more; default: 1."),
    ] = None,
    columns: Print = None,
    raw: Raw = False,
) -> None:
    """Consume messages for a group; commit what was printed."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest

    if sys.__stdout__ is None:  # what stands in for it takes everything, and shows it to nobody
        raise BadRequest(
            "standard output is closed.",
            hint="What is consumed is done: let it be printed somewhere, if only to /dev/null.",
        )
    if follow and wait is not None:
        raise BadRequest("--follow and --wait say two things.", hint="Leave one out.")
    patience = None if follow else 1.0 if wait is None else wait
    consuming = Consuming(topic, group, mode, delivery, inputs.start(start), patience, limit)
    with Printer(invocation, columns, raw=raw, endless=follow) as printer:
        run_async(until_told(partial(_consume, invocation, consuming, printer)))
    if not follow:
        _say_nothing_came(invocation, printer, raw=raw)


def _say_nothing_came(invocation: Invocation, printer: "Printer", *, raw: bool) -> None:
    """A table without rows is not printed: say so where a person looks."""
    if not printer.count and not raw and invocation.format is Format.TABLE:
        say("No messages.")


@dataclass(frozen=True, slots=True)
class Consuming:
    """How to consume; ``wait`` None is for ever."""

    topic: str
    group: str
    mode: str
    delivery: str
    start: "Start"
    wait: float | None
    limit: int | None

    @property
    def divisible(self) -> bool:
        """Whether a part of a batch can be committed alone."""
        return self.mode == "assigned" and self.delivery == "at-least-once"

    def batch_size(self, printed: int) -> int:
        """How many messages may come at once; what is divisible may be too many."""
        if self.limit is None or self.divisible:
            return _MOST
        return min(_MOST, self.limit - printed)


async def _consume(
    invocation: Invocation, consuming: Consuming, printer: "Printer", stop: asyncio.Event
) -> None:
    async with invocation.platform() as platform:
        more = True
        while more and not stop.is_set():
            size = consuming.batch_size(printer.count)
            consumer = platform.log.consume(
                consuming.topic,
                consuming.group,
                mode=consuming.mode,
                delivery=consuming.delivery,
                start=consuming.start,
                max_messages=size,
            )
            async with consumer:
                while more and not stop.is_set() and consuming.batch_size(printer.count) == size:
                    more = await _consume_batch(platform, consumer, consuming, printer, stop)


async def _consume_batch(
    platform: "Platform",
    consumer: "Consumer",
    consuming: Consuming,
    printer: "Printer",
    stop: asyncio.Event,
) -> bool:
    """Print and commit one batch; whether there may be more."""
    from trunkline.core.errors import LeaseLost
    from trunkline.log import group_calls

    batch = await _poll(consumer, consuming, stop)
    if batch is None:
        return False
    rest = len(batch) if consuming.limit is None else consuming.limit - printer.count
    messages = batch.messages[:rest]
    printer.print(messages)
    try:
        if len(messages) == len(batch):
            await batch.commit()
        else:
            place = (batch.topic, consuming.group, batch.partition, batch.token)
            last = messages[-1].offset
            await platform.db.run(
                group_calls.commit(*place, last, incarnation=batch.written_by(last))
            )
    except LeaseLost as error:
        where = f"{batch.topic}/{batch.partition}"
        say(f"{where} from {batch.first_offset} on may come again: {error.message}")
    except asyncio.CancelledError:
        where = f"{batch.topic}/{batch.partition}"
        say(f"{where} from {batch.first_offset} on may come again: the server does not answer.")
        raise
    return printer.count != consuming.limit


async def _poll(consumer: "Consumer", consuming: Consuming, stop: asyncio.Event) -> "Batch | None":
    """The next batch; when told to stop meanwhile, one that cannot be given back."""
    polling = asyncio.ensure_future(consumer.poll(consuming.wait))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({polling, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if polling.done():
            return polling.result()
        await consumer.close()
        batch = await polling
    finally:
        stopping.cancel()
        polling.cancel()
    if batch is not None and consuming.delivery == "at-least-once":
        await batch.release(reason="its consumer was told to stop")
        return None
    return batch


class Printer:
    """Prints messages as they come, and counts them."""

    def __init__(
        self, invocation: Invocation, columns: str | None, *, raw: bool, endless: bool = False
    ):
        from trunkline.cli import inputs
        from trunkline.core.errors import BadRequest

        if raw and (invocation.form is not None or columns is not None):
            other = "--print" if invocation.form is None else f"--{invocation.form}"
            raise BadRequest(f"--raw and {other} say two things.", hint="Leave one out.")
        form = invocation.format
        if endless and invocation.form is None and form is Format.JSON:
            form = Format.NL  # an array without end is no JSON
        usual = _FOR_PEOPLE if form is Format.TABLE else FIELDS
        self.count = 0
        self._columns = inputs.columns(columns, known=FIELDS, usual=usual)
        self._raw = raw
        self._form = form
        self._writer: Writer | None = None

    def print(self, messages: "Iterable[Message]") -> None:
        """Print messages; they have left the program when this returns."""
        messages = list(messages)
        self.count += len(messages)
        if self._raw:
            lines = b"".join((message.value or b"") + b"\n" for message in messages)
            sys.stdout.flush()
            sys.stdout.buffer.write(lines)
        else:
            self._opened().write(
                {name: getattr(message, name) for name in self._columns} for message in messages
            )
        sys.stdout.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # What was begun is ended even after an error; where nothing was said, nothing is.
        begun = error is None or self._writer is not None
        if begun and not self._raw and not isinstance(error, BrokenPipeError):
            self._opened().close()

    def _opened(self) -> Writer:
        if self._writer is None:
            self._writer = open_stream(self._form, self._columns)
        return self._writer
