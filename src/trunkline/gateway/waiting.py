"""What a request waits for: something that is not there yet, for some seconds at most."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import Field

from trunkline.gateway.bodies import Duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from trunkline.gateway.callers import Caller

T = TypeVar("T")

_LOOK_EVERY = 1.0  # seconds, where no wake-up comes

Wait = Annotated[
    Duration,
    Field(le=timedelta(seconds=30), description="How long to wait where nothing is there yet."),
]


async def found_within(
    wait: timedelta, me: Caller, request: Request, prefix: str, look: Callable[[], Awaitable[T]]
) -> T:
    """What is found, or what was looked for last: nothing.

    Nobody looks for whoever has gone, whose token has expired, or when the gateway stops.
    """
    seconds, rest = wait.total_seconds(), me.identity.rest
    give_up = time.monotonic() + (seconds if rest is None else min(seconds, rest))
    async with me.listener.subscribe(prefix) as heard:
        while True:
            found = await look()
            left = give_up - time.monotonic()
            if found or left <= 0:
                return found
            await heard.wait(min(_LOOK_EVERY, left))
            if me.stopping or await request.is_disconnected():
                return found
