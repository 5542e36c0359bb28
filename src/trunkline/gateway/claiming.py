"""Messages on their way to one of many readers of a shared group.

A claim and its messages are read in one transaction: what cannot be told is not claimed. Whoever
asks keeps nothing here. If he is never heard of again, the claim comes back after its deadline.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from psycopg import Rollback
from pydantic import Field

from trunkline.core.errors import LeaseLost
from trunkline.gateway.bodies import Body, Duration, start
from trunkline.gateway.waiting import Wait  # noqa: TC001 - read by pydantic
from trunkline.log import calls, group_calls
from trunkline.log.burying import bury
from trunkline.log.decoding import decode

if TYPE_CHECKING:
    import psycopg

    from trunkline.gateway.acting import ActingDb
    from trunkline.log.models import Claim, Message


class NewClaim(Body):
    """What is claimed, and for how long."""

    partition: Annotated[int | None, Field(description="None: any.")] = None
    max_messages: Annotated[int, Field(ge=1, le=1_000)] = 100
    max_bytes: Annotated[int, Field(ge=1, le=8 << 20, description="At least a message comes.")] = (
        1 << 20
    )
    deadline: Annotated[Duration, Field(description="After this it comes back.")] = timedelta(
        minutes=1
    )
    max_attempts: Annotated[int, Field(ge=1, description="Then it is a dead letter.")] = 5
    start: Annotated[
        str, Field(description="Of a new group: earliest, hot, latest, an offset or a time.")
    ] = "earliest"
    wait: Wait = timedelta(0)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim and its messages; there are none where compaction took them all."""

    partition: int
    claim: Claim
    messages: list[Message]


class Claiming:
    """Claims what comes next in a topic for a group, as one who asked."""

    def __init__(self, db: ActingDb, topic: str, group: str, asked: NewClaim):
        self._db = db
        self._topic = topic
        self._group = group
        self._asked = asked
        self._start = start(asked.start, name="start")
        self._looked = False

    async def next(self) -> Claimed | None:
        """What comes next in any partition; what failed too often is buried on the way."""
        for partition in await self._partitions():
            while found := await self._claim(partition):
                if found.claim.attempts > self._asked.max_attempts:
                    await self._bury(found)
                    continue
                if found.messages:
                    return found
                with suppress(LeaseLost):  # it took too long, and somebody else does the same
                    await self._db.run(
                        group_calls.ack(self._topic, self._group, partition, found.claim.claim)
                    )
        return None

    async def _bury(self, found: Claimed) -> None:
        async def read() -> list[Message]:
            return found.messages

        place = (self._topic, self._group, found.partition)
        await bury(self._db, *place, found.claim, read)

    async def _partitions(self) -> list[int]:
        """Where something is, in any order: those who ask at once begin at different ones."""
        if self._asked.partition is not None:
            return [self._asked.partition]
        found = await self._db.run(group_calls.claimable(self._topic, self._group))
        if not (found or self._looked):
            found = [0]  # a claim tells what is wrong with what was asked, also where nothing is
        self._looked = True
        return random.sample(found, len(found))

    async def _claim(self, partition: int) -> Claimed | None:
        """A claim of as many messages as fit; a larger one is undone before anybody sees it."""
        most = self._asked.max_messages
        while True:
            async with self._db.transaction() as on:
                claims = await self._db.run(
                    group_calls.claim(
                        self._topic,
                        self._group,
                        partition,
                        max_messages=most,
                        deadline=self._asked.deadline,
                        max_attempts=self._asked.max_attempts,
                        start=self._start,
                    ),
                    on=on,
                )
                if not claims:
                    return None
                (claim,) = claims
                messages, reach = await self._read(partition, claim, on)
                if reach == claim.last_offset:
                    return Claimed(partition, claim, messages)
                most = reach - claim.first_offset + 1
                raise Rollback

    async def _read(
        self, partition: int, claim: Claim, on: psycopg.AsyncConnection
    ) -> tuple[list[Message], int]:
        """The messages of a claim that fit, and how far they reach."""
        messages: list[Message] = []
        size, after = 0, claim.first_offset
        while after <= claim.last_offset:
            fetch = calls.fetch(
                self._topic,
                partition,
                after,
                max_messages=claim.last_offset - after + 1,
                max_bytes=self._asked.max_bytes,
            )
            parts = [decode(batch) for batch in await self._db.run(fetch, on=on)]
            if not parts:
                break
            for part in parts:
                for message in part.messages(self._topic, partition):
                    if message.offset > claim.last_offset:  # compaction has left holes
                        return messages, claim.last_offset
                    size += len(message.value or b"") + len(message.key or b"")
                    if messages and size > self._asked.max_bytes:
                        return messages, messages[-1].offset
                    messages.append(message)
                whole = part.skip + part.take == part.n
                after = 1 + (part.last_offset if whole else part.offsets[-1])
        return messages, claim.last_offset
