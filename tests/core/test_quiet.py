"""While nobody commits, nothing is looked for; whatever was committed is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import connections

from trunkline.core.quiet import Quiet

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb

WRITE = "select pg_current_xact_id()"  # a transaction with a number, as every one that writes


class Work:
    """Finds what it is told to find, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.finds = 0

    async def __call__(self) -> int:
        self.asked += 1
        return self.finds


async def until_still(quiet: Quiet, work: Work) -> None:
    """The server itself commits now and then, but not a hundred times in a row."""
    for _ in range(100):
        before = work.asked
        assert await quiet.unless_still(work) == 0
        if work.asked == before:
            return
    raise AssertionError("the work was looked for a hundred times, and nobody had committed")


async def test_work_is_left_out_while_nobody_commits(db: AsyncDb) -> None:
    await until_still(Quiet(db), Work())


async def test_work_is_looked_for_after_every_commit(db: AsyncDb, dsn: str) -> None:
    quiet, work = Quiet(db), Work()
    with connections(dsn) as connect:
        session = connect()
        for _ in range(3):
            await until_still(quiet, work)
            session.execute(WRITE)
            before = work.asked
            await quiet.unless_still(work)
            assert work.asked == before + 1


async def test_a_transaction_that_began_long_before_is_not_missed(db: AsyncDb, dsn: str) -> None:
    quiet, work = Quiet(db), Work()
    with connections(dsn) as connect:
        old = connect(autocommit=False)
        old.execute(WRITE)
        await until_still(quiet, work)
        old.commit()
        before = work.asked
        await quiet.unless_still(work)
        assert work.asked == before + 1


async def test_what_is_committed_while_the_work_is_done_is_looked_for_again(
    db: AsyncDb, dsn: str
) -> None:
    quiet = Quiet(db)
    with connections(dsn) as connect:
        session = connect()
        asked = 0

        async def work() -> int:
            nonlocal asked
            asked += 1
            session.execute(WRITE)
            return 0

        for _ in range(3):
            await quiet.unless_still(work)
        assert asked == 3


async def test_work_that_failed_is_done_again(db: AsyncDb) -> None:
    quiet = Quiet(db)

    async def fails() -> int:
        raise RuntimeError("no")

    for _ in range(3):
        with pytest.raises(RuntimeError):
            await quiet.unless_still(fails)


async def test_work_that_found_something_is_done_again_at_once(db: AsyncDb) -> None:
    quiet, work = Quiet(db), Work()
    work.finds = 5
    for _ in range(3):
        assert await quiet.unless_still(work) == 5
    assert work.asked == 3
