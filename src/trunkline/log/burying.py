"""Dead letters of shared groups: messages that failed too often go to ``<topic>.dead``."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.errors import LeaseLost, PositionTrimmed, UnsupportedCodec
from trunkline.log import dead_calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from trunkline.core.db import AsyncDb
    from trunkline.log.models import Claim, Message

logger = telemetry.get_logger(__name__)


async def bury(
    db: AsyncDb,
    topic: str,
    group: str,
    partition: int,
    claim: Claim,
    read: Callable[[], Awaitable[Iterable[Message]]],
) -> None:
    """Make a message that failed too often a dead letter, unless somebody else does it.

    ``read`` gives what the claim holds, where SQL cannot read it: compressed, or archived.
    """
    place, letters = (topic, group, partition, claim.claim), dict[int, int]()
    with suppress(LeaseLost):
        try:
            letters = await db.run(dead_calls.bury(*place))
        except (UnsupportedCodec, PositionTrimmed):
            for message in await read():  # there is one
                letters = await db.run(dead_calls.bury(*place, message=message))
    for offset, letter in letters.items():
        logger.warning(
            "dead letter",
            topic=topic,
            group=group,
            partition=partition,
            offset=offset,
            attempts=claim.attempts - 1,
            reason=claim.reason,
            letter=letter,
        )
