"""``trunkline log append``: lines become messages."""

import asyncio
import os
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
    from trunkline.log.models import Appended


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="seq 10 | trunkline log append numbers", reads=True, panel="Messages")(
        append
    )


def append(
    invocation: Invocation,
    topic: Topic,
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
        int | None, typer.Option("--partition", "-p", metavar="N", help="Where all of them go.")
    ] = None,
    codec: Annotated[
        str | None, typer.Option(metavar="none|zstd", help="Else what the topic says.")
    ] = None,
    tombstones: Annotated[
        bool, flag("--tombstones", help="An empty value is null: it deletes its key.")
    ] = False,
) -> None:
    """Append the lines of standard input, or of a file, as messages."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest

    if key is not None and key_separator is not None:
        raise BadRequest("--key and --key-separator say two things.", hint="Leave one out.")
    shape = Shape(
        key=None if key is None else os.fsencode(key),
        separator=None if key_separator is None else inputs.separator(key_separator),
        headers=inputs.headers(header),
        partition=partition,
        tombstones=tombstones,
    )
    receipts = Receipts(topic)
    try:
        with opened(file) as source:
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
    """What a line means."""

    key: bytes | None
    separator: bytes | None
    headers: dict[str, str] | None
    partition: int | None
    tombstones: bool

    def message(self, line: bytes, number: int) -> dict[str, Any]:
        """The arguments of a send."""
        from trunkline.core.errors import Invalid

        key, value = self.key, line
        if self.separator is not None:
            key, found, value = line.partition(self.separator)
            if not found:
                between = self.separator.decode(errors="backslashreplace")
                raise Invalid(f'line {number} has no "{between}" between key and value.')
        return {
            "value": None if self.tombstones and not value else value,
            "key": key,
            "headers": self.headers,
            "partition": self.partition,
        }


@dataclass(slots=True)
class Receipts:
    """Where messages went, partition by partition."""

    topic: str
    messages: int = 0
    failed: bool = False
    _counts: dict[int, list[int]] = field(default_factory=dict)

    def note(self, answer: "asyncio.Future[Appended]") -> None:
        """A message is durable, or will never be."""
        if answer.cancelled() or answer.exception() is not None:
            self.failed = True
            return
        stored = answer.result()
        self.messages += 1
        count = self._counts.setdefault(stored.partition, [0, stored.first_offset, 0])
        count[0] += 1
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


async def _append(
    invocation: Invocation, source: Source, shape: Shape, receipts: Receipts, codec: str | None
) -> None:
    from trunkline.core.errors import TrunklineError

    async with invocation.platform() as platform:
        await platform.log.describe(receipts.topic)  # a wrong name is told before anything is read
        if source.typed:
            say("Type messages, one per line; ctrl-D ends.")
        async with platform.log.producer(receipts.topic, codec=codec) as producer:
            number = 0
            async for some in lines(source):
                for line in some:
                    number += 1
                    message = shape.message(line, number)
                    try:
                        answer = await producer.send(**message)
                    except TrunklineError as error:
                        error.message = f"line {number}: {error.message}"
                        raise
                    answer.add_done_callback(receipts.note)
                if receipts.failed:
                    break
                await asyncio.sleep(0)
