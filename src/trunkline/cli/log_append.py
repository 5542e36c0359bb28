"""``trunkline log append``: lines become messages."""

import asyncio
import os
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.invocation import Invocation, command, flag, run_async
from trunkline.cli.lines import Source, lines, opened
from trunkline.cli.log import Topic
from trunkline.cli.output import say
from trunkline.core.words import counted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from trunkline.log.models import Appended
    from trunkline.log.producer import Producer


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="trunkline log append greetings hello", reads=True, panel="Messages")(
        append
    )


def append(
    invocation: Invocation,
    topic: Topic,
    messages: Annotated[
        list[str] | None,
        typer.Argument(metavar="MESSAGE", help="Messages; none or -: lines of standard input."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="Lines of this file instead of stdin."),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", "-k", metavar="KEY", help="The key of every message.")
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help=r"Lines are key, separator, value; \t is a tab."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="A header; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            "--partition", "-p", metavar="N", help="Append all of them to this partition."
        ),
    ] = None,
    codec: Annotated[
        str | None,
        typer.Option(metavar="none|zstd", help="Compression; default: that of the topic."),
    ] = None,
    tombstones: Annotated[
        bool, flag("--tombstones", help="An empty value is null: it deletes its key.")
    ] = False,
) -> None:
    """Append messages: arguments, or the lines of a file or of standard input."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest

    if key is not None and key_separator is not None:
        raise BadRequest("--key and --key-separator say two things.", hint="Leave one out.")
    if messages and file is not None:
        raise BadRequest("MESSAGE and --file say two things.", hint="Leave one out.")
    given = None if not messages or messages == ["-"] else [os.fsencode(each) for each in messages]
    shape = Shape(
        key=None if key is None else os.fsencode(key),
        separator=None if key_separator is None else inputs.separator(key_separator),
        headers=inputs.headers(header),
        partition=partition,
        tombstones=tombstones,
        called="line" if given is None else "message",
    )
    receipts = Receipts(topic)
    try:
        with opened(file) if given is None else nullcontext(given) as source:
            run_async(_append(invocation, source, shape, receipts, codec))
    except BaseException:
        if receipts.messages:
            invocation.print(receipts.rows())
            stored = counted(receipts.messages, "message is", "messages are")
            say(f"It ended early; {stored} stored.")
        raise
    invocation.print(receipts.rows())


@dataclass(frozen=True, slots=True)
class Shape:
    """What a line, or a message that is named, means."""

    key: bytes | None
    separator: bytes | None
    headers: dict[str, str] | None
    partition: int | None
    tombstones: bool
    called: str

    def key_and_value(self, line: bytes, number: int) -> tuple[bytes | None, bytes]:
        """What a line says; ``number`` is for whoever has to find it."""
        from trunkline.core.errors import Invalid

        if self.separator is None:
            return self.key, line
        key, found, value = line.partition(self.separator)
        if not found:
            between = self.separator.decode(errors="backslashreplace")
            raise Invalid(f'{self.called} {number} has no "{between}" between key and value.')
        return key, value

    async def send(
        self,
        producer: "Producer",
        lines: list[bytes],
        numbers: range,
        partition: int | None,
        note: "Callable[[asyncio.Future[Appended]], None]",
    ) -> None:
        """Hand lines over, all at once; where one of them is refused, up to that one."""
        from trunkline.core.errors import Invalid, TooLarge, TrunklineError

        if not self.tombstones:
            with suppress(Invalid, TooLarge):
                pairs = list(map(self.key_and_value, lines, numbers))
                for answer in await producer.send_many(
                    [value for _, value in pairs],
                    keys=None if pairs[0][0] is None else [key for key, _ in pairs],
                    headers=None if self.headers is None else [self.headers] * len(pairs),
                    partition=partition,
                ):
                    answer.add_done_callback(note)
                return
        for line, number in zip(lines, numbers, strict=True):
            key, value = self.key_and_value(line, number)
            try:
                answer = await producer.send(
                    None if self.tombstones and not value else value,
                    key=key,
                    headers=self.headers,
                    partition=partition,
                )
            except TrunklineError as error:
                error.message = f"{self.called} {number}: {error.message}"
                raise
            answer.add_done_callback(note)


@dataclass(slots=True)
class Receipts:
    """Where messages went, partition by partition."""

    topic: str
    messages: int = 0
    failed: bool = False
    _counts: dict[int, list[int]] = field(default_factory=dict)

    def note(self, answer: "asyncio.Future[Appended]") -> None:
        """Messages are durable, or will never be."""
        if answer.cancelled() or answer.exception() is not None:
            self.failed = True
            return
        stored = answer.result()
        n = stored.last_offset - stored.first_offset + 1
        self.messages += n
        count = self._counts.setdefault(stored.partition, [0, stored.first_offset, 0])
        count[0] += n
        count[1] = min(count[1], stored.first_offset)
        count[2] = max(count[2], stored.last_offset)

    def rows(self) -> list[dict[str, Any]]:
        """A row per partition; others may have written between the two offsets."""
        return [
            {
                "topic": self.topic,
                "partition": partition,
                "messages": messages,
                "first_offset": first,
                "last_offset": last,
            }
            for partition, (messages, first, last) in sorted(self._counts.items())
        ]


async def _at_once(messages: list[bytes]) -> "AsyncIterator[list[bytes]]":
    yield messages


async def _append(
    invocation: Invocation,
    source: Source | list[bytes],
    shape: Shape,
    receipts: Receipts,
    codec: str | None,
) -> None:
    async with invocation.platform() as platform:
        # a wrong name is told before anything is read
        partitions = len(await platform.log.describe(receipts.topic))
        if isinstance(source, Source) and source.typed:
            say("Type messages, one per line; ctrl-D ends.")
        keyed = shape.key is not None or shape.separator is not None
        spread = 1 if keyed or shape.partition is not None else partitions
        async with platform.log.producer(receipts.topic, codec=codec) as producer:
            number = 1
            async for some in lines(source) if isinstance(source, Source) else _at_once(source):
                for part in range(min(spread, len(some))):
                    share = some[part::spread]
                    numbers = range(number + part, number + len(some), spread)
                    to = (numbers[0] % spread) if spread > 1 else shape.partition
                    await shape.send(producer, share, numbers, to, receipts.note)
                number += len(some)
                if receipts.failed:
                    break
                await asyncio.sleep(0)
