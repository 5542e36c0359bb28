"""While nobody commits, nothing is looked for; whatever was committed is found."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.fixtures.asking import connections

import trunkline
from trunkline.core.db import AsyncDb
from trunkline.core.quiet import Commits, Quiet
from trunkline.core.service import Supervisor
from trunkline.testing import eventually

if TYPE_CHECKING:
    from trunkline.core.calls import Call

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


class Asked:
    """A database that counts what is asked."""

    def __init__(self, db: AsyncDb) -> None:
        self._db = db
        self.times = 0

    async def run(self, call: Any) -> Any:
        self.times += 1
        return await self._db.run(call)


async def test_what_a_quicker_one_has_asked_is_not_asked_again(db: AsyncDb) -> None:
    commits, asked, work = Commits(), Asked(db), Work()
    quick = Quiet(db, commits=commits)
    slow = Quiet(cast("AsyncDb", asked), commits=commits, within=60)
    await quick.unless_still(Work())
    for _ in range(20):
        await quick.unless_still(Work())
        await slow.unless_still(work)
    assert asked.times == 0
    assert work.asked < 20
    await slow.unless_still(work)
    assert asked.times == 1, "nobody else has asked since"


async def test_an_answer_that_is_too_old_is_asked_for_again(db: AsyncDb) -> None:
    commits, asked = Commits(), Asked(db)
    quick = Quiet(db, commits=commits)
    slow = Quiet(cast("AsyncDb", asked), commits=commits, within=0)
    for _ in range(3):
        await quick.unless_still(Work())
        await slow.unless_still(Work())
    assert asked.times == 2


async def test_who_learns_of_a_commit_wakes_the_others_and_not_itself(
    db: AsyncDb, dsn: str
) -> None:
    commits, work, woken = Commits(), Work(), Counter[str]()
    quick = Quiet(db, commits=commits, wake=lambda: woken.update(["quick"]))
    slow = Quiet(db, commits=commits, within=60, wake=lambda: woken.update(["slow"]))
    with connections(dsn) as connect:
        session = connect()
        await until_still(quick, Work())
        await until_still(slow, work)
        woken.clear()
        session.execute(WRITE)
        await quick.unless_still(Work())
        assert woken == {"slow": 1}
        before = work.asked
        await slow.unless_still(work)
        assert work.asked == before + 1


async def test_who_is_at_work_is_not_woken(db: AsyncDb, dsn: str) -> None:
    commits, work, woken = Commits(), Work(), Counter[str]()
    busy = Quiet(db, commits=commits, wake=lambda: woken.update(["busy"]))
    work.finds = 1
    with connections(dsn) as connect:
        session = connect()
        await busy.unless_still(work)
        quick = Quiet(db, commits=commits)
        for _ in range(3):
            session.execute(WRITE)
            await quick.unless_still(Work())
    assert not woken


async def test_of_the_services_of_an_idle_process_one_asks(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    run = AsyncDb.run

    async def noted(db: AsyncDb, call: Call[Any], **given: Any) -> Any:
        asked.append(call.function)
        return await run(db, call, **given)

    monkeypatch.setattr(AsyncDb, "run", noted)
    async with await trunkline.connect(dsn) as platform:
        sequencers = [one for one in platform.services() if one.name.endswith("-sequencer")]
        supervisor = Supervisor(sequencers)
        broker, tube = (supervisor.loop(f"{name}-sequencer") for name in ("broker", "tube"))
        running = asyncio.create_task(supervisor.run())
        await eventually(lambda: tube.runs >= 40)
        await supervisor.stop()
        await running
    assert asked.count("_commits_seen") < broker.runs + tube.runs / 2
