"""Calls that a crowd makes at the same time become one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from trunkline.core.calls import Call, scalar
from trunkline.core.errors import NotFound, Unavailable
from trunkline.core.gathering import ALONE, GatheringDb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.core.db import AsyncDb

TTL = Call("lease_ttl", {}, scalar, safe_to_repeat=True)


class Crowd:
    """Asks for many, and remembers for how many."""

    def __init__(self, db: AsyncDb, *, function: str = "lease_ttl", alone: int = 0):
        self.sizes: list[int] = []
        self._function = function
        self._alone = alone
        self.db = GatheringDb(db, 2, {"lease_ttl": self._together})

    def _together(self, asked: Sequence[Call[Any]]) -> Call[list[Any]]:
        self.sizes.append(len(asked))

        def shape(rows: list[dict[str, Any]]) -> list[Any]:
            together = [f"{scalar(rows)} together"] * (len(asked) - self._alone)
            return together + [ALONE] * self._alone

        return Call(self._function, {}, shape, safe_to_repeat=True)

    async def ask(self, n: int) -> list[Any]:
        return list(await asyncio.gather(*(self.db.run(TTL) for _ in range(n))))


async def test_calls_that_come_together_are_made_together_and_each_has_its_answer(
    db: AsyncDb,
) -> None:
    crowd, ttl = Crowd(db, alone=1), await db.run(TTL)
    assert await crowd.ask(5) == [f"{ttl} together"] * 4 + [ttl]
    assert crowd.sizes == [5]


async def test_a_call_that_comes_alone_is_made_as_it_is(db: AsyncDb) -> None:
    crowd = Crowd(db)
    assert await crowd.ask(1) == [await db.run(TTL)]
    assert crowd.sizes == []


async def test_a_great_crowd_is_served_in_parts(db: AsyncDb) -> None:
    crowd = Crowd(db)
    assert len(await crowd.ask(1_100)) == 1_100
    assert crowd.sizes == [500, 500, 100]


async def test_when_the_common_call_fails_each_is_made_alone(db: AsyncDb) -> None:
    crowd = Crowd(db, function="lease_ttl_of_nobody")
    assert await crowd.ask(3) == [await db.run(TTL)] * 3
    assert crowd.sizes == [3]


async def test_what_is_refused_alone_is_that_callers_error(db: AsyncDb) -> None:
    crowd = GatheringDb(
        db,
        2,
        {"broker_fetch": lambda asked: Call("lease_ttl", {}, lambda _: [ALONE] * len(asked))},
    )
    given = {"group_name": "nobody", "handler": "", "lanes": [0], "after": [0]}
    types = {"lanes": "int[]", "after": "bigint[]"}
    call = Call("broker_fetch", given, scalar, types=types)
    answers = await asyncio.gather(crowd.run(call), crowd.run(call), return_exceptions=True)
    assert [type(answer) for answer in answers] == [NotFound, NotFound]


async def test_whoever_gives_up_waiting_holds_up_nobody(db: AsyncDb) -> None:
    crowd = Crowd(db)
    crowd.db.pause = 0.05
    waiting = [asyncio.create_task(crowd.db.run(TTL)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert answers[0] == answers[2] == f"{await db.run(TTL)} together"
    assert isinstance(answers[1], asyncio.CancelledError)


async def test_a_server_that_is_away_is_everybodys_trouble(db: AsyncDb) -> None:
    crowd = Crowd(db)
    await db.close()
    with pytest.raises(Unavailable):
        await crowd.ask(3)
