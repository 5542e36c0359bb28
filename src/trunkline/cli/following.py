"""What comes without end is printed as it comes, until one has enough."""

import asyncio
import sys
from collections.abc import AsyncIterable, Coroutine
from typing import TYPE_CHECKING, Any

from trunkline.cli.output import Format, as_row

if TYPE_CHECKING:
    from trunkline.cli.invocation import Invocation
    from trunkline.cli.output import Writer


def format_of(invocation: "Invocation") -> Format:
    """How to print: an array without end is no JSON."""
    form = invocation.format
    return Format.NL if invocation.form is None and form is Format.JSON else form


async def follow(
    values: AsyncIterable[Any],
    writer: "Writer",
    *,
    limit: int | None,
    beside: Coroutine[Any, Any, None],
    stop: asyncio.Event,
) -> None:
    """Print values, ``limit`` of them at most, until ``stop``; ``beside`` works meanwhile."""
    working = asyncio.create_task(beside)
    printing = asyncio.create_task(_print(values, writer, limit))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({printing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stop.set()
    printing.cancel()
    await asyncio.wait({printing, working})
    if not printing.cancelled():
        printing.result()


async def _print(values: AsyncIterable[Any], writer: "Writer", limit: int | None) -> None:
    count = 0
    try:
        async for value in values:
            writer.write([as_row(value)])
            sys.stdout.flush()
            count += 1
            if count == limit:
                return
    finally:
        writer.close()
