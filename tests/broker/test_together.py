"""What many handlers ask at once is answered as if each had asked alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.groups import Member, match, subscribe
from tests.broker.steps import call, publish
from tests.fixtures.asking import ask

from trunkline.broker import handler_calls as calls
from trunkline.broker.lane import Cut
from trunkline.core.db import AsyncDb
from trunkline.core.errors import LeaseLost, NotFound, PositionTrimmed
from trunkline.core.gathering import GatheringDb

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.broker.steps import Session

    from trunkline.core.calls import Call

GROUPS = ["a", "b", "c"]


@pytest.fixture
async def db(clean_dsn: str) -> AsyncIterator[AsyncDb]:
    one = AsyncDb(clean_dsn)
    yield one
    await one.close()


@pytest.fixture
def crowd(db: AsyncDb) -> GatheringDb:
    together = {
        "broker_fetch": calls.fetch_together,
        "broker_commit": calls.commit_together,
        "_broker_cut": calls.commit_together,
    }
    return GatheringDb(db, 2, together)


@pytest.fixture
def members(session: Session) -> dict[str, Member]:
    """Three groups with twenty events in the lanes of each; a member that owns all of them."""
    found = {}
    for group in GROUPS:
        subscribe(session, group, {"topic": f"{group}.*"})
        found[group] = Member(session, group)
        for number in range(20):
            publish(session, f"{group}.made", number, key=f"k{number % 7}")
    match(session)
    return found


def fetch(group: str, *, after: int = 0, max_events: int = 100, lanes: int = 4) -> Call[Any]:
    return calls.fetch(group, "", dict.fromkeys(range(lanes), after), max_events=max_events)


async def asked(db: AsyncDb, *wanted: Call[Any]) -> list[Any]:
    return list(await asyncio.gather(*(db.run(each) for each in wanted), return_exceptions=True))


@pytest.mark.parametrize("most", [1, 3, 100])
async def test_what_is_fetched_together_is_what_each_would_have_fetched(
    crowd: GatheringDb, db: AsyncDb, members: dict[str, Member], most: int
) -> None:
    for member in members.values():
        member.join()
    wanted = [fetch(group, max_events=most) for group in GROUPS]

    assert await asked(crowd, *wanted) == [await db.run(each) for each in wanted]


async def test_a_fetch_that_is_refused_is_refused_alone(
    crowd: GatheringDb, session: Session, members: dict[str, Member]
) -> None:
    for member in members.values():
        member.join()
    session.execute("update trunkline.broker_group set trimmed_to = 9 where group_name = 'b'")

    first, trimmed, missing = await asked(crowd, fetch("a"), fetch("b"), fetch("nobody"))

    assert sum(map(len, first.values())) >= 20
    assert isinstance(trimmed, PositionTrimmed)
    assert isinstance(missing, NotFound)


async def test_lanes_are_committed_together_and_those_of_another_owner_are_refused(
    crowd: GatheringDb, session: Session, members: dict[str, Member]
) -> None:
    wanted = []
    for group, member in members.items():
        (share, *_) = member.join()
        epoch = share.epoch + (group == "b")
        wanted.append(calls.commit(group, "", share.lane, epoch, share.up_to + 1))

    answers = await asked(crowd, *wanted)

    assert [answers[0], answers[2]] == [None, None]
    assert isinstance(answers[1], LeaseLost)
    moved = {group: member.join()[0].up_to for group, member in members.items()}
    assert moved == {
        each.arguments["group_name"]: each.arguments["up_to"] - (answer is not None)
        for each, answer in zip(wanted, answers, strict=True)
    }


@pytest.mark.parametrize("together", [True, False])
async def test_batches_under_way_stand_with_the_position_until_the_next_one(
    crowd: GatheringDb, db: AsyncDb, members: dict[str, Member], together: bool
) -> None:
    shares = {group: member.join()[0] for group, member in members.items()}
    asking = crowd if together else db

    async def commit(further: int, *cuts: Cut) -> list[list[Cut]]:
        for answer in await asked(
            asking,
            *(
                calls.commit(group, "", share.lane, share.epoch, share.up_to + further, cuts)
                for group, share in shares.items()
            ),
        ):
            assert answer is None
        found = [await db.run(calls.cuts(g, "", [s.lane])) for g, s in shares.items()]
        return [cuts for each in found for cuts in each.values()]

    assert await commit(0, Cut(7), Cut(9, (8,))) == [[Cut(7), Cut(9, (8,))]] * 3
    assert await commit(0, Cut(6), Cut(9)) == [[Cut(6), Cut(9)]] * 3
    assert await commit(1, Cut(9)) == [[Cut(9)]] * 3
    assert await commit(2) == [[]] * 3


async def test_batches_of_another_owner_are_refused_and_nothing_is_written_twice(
    crowd: GatheringDb, session: Session, members: dict[str, Member]
) -> None:
    shares = {group: member.join()[0] for group, member in members.items()}

    def cut(group: str, *, beyond: int = 0) -> Call[Any]:
        share = shares[group]
        return calls.commit(group, "", share.lane, share.epoch + beyond, share.up_to, [Cut(9)])

    await asked(crowd, cut("a"), cut("b"))
    written = ask(session, "select count(*) from trunkline.cursor")
    answers = await asked(crowd, cut("a"), cut("b"), cut("c", beyond=1))

    assert [answers[0], answers[1]] == [None, None]
    assert isinstance(answers[2], LeaseLost)
    assert ask(session, "select count(*) from trunkline.cursor") == written


async def test_a_handler_that_is_moved_has_no_batches_under_way(
    db: AsyncDb, session: Session, members: dict[str, Member]
) -> None:
    (share, *_) = members["a"].join()
    await db.run(calls.commit("a", "", share.lane, share.epoch, share.up_to, [Cut(9)]))
    call(session, "broker_seek", group_name="a", up_to=0)

    assert await db.run(calls.cuts("a", "", [share.lane])) == {share.lane: []}


async def test_a_commit_never_goes_back_and_never_beyond_what_there_is(
    session: Session, members: dict[str, Member]
) -> None:
    (share, *_) = members["a"].join()
    last = ask(session, "select trunkline._broker_delivered()")

    def commit(up_to: int) -> list[int]:
        given = {"group_names": ["a"], "handlers": [""], "lanes": [share.lane]}
        (row,) = call(session, "_broker_commit_many", **given, epochs=[share.epoch], up_tos=[up_to])
        return list(row[0])

    assert (commit(last), commit(last - 1), commit(last + 1)) == ([1], [1], [])
    assert members["a"].join()[0].up_to == last


async def test_a_lane_that_somebody_holds_makes_no_other_wait(
    crowd: GatheringDb,
    session: Session,
    connect: Callable[..., Session],
    members: dict[str, Member],
) -> None:
    shares = {group: member.join()[0] for group, member in members.items()}
    holder = connect()
    holder.autocommit = False
    holder.execute(
        "select from trunkline.cursor_key k join trunkline.broker_group g on g.group_name = 'b'"
        " where k.resource = trunkline._broker_resource(g.group_id, '', %s) for update of k",
        [shares["b"].lane],
    )
    waiting = {
        group: asyncio.create_task(
            crowd.run(calls.commit(group, "", share.lane, share.epoch, share.up_to + 1))
        )
        for group, share in shares.items()
    }

    await asyncio.wait_for(asyncio.gather(waiting["a"], waiting["c"]), 10)

    assert not waiting["b"].done()
    holder.rollback()
    await waiting["b"]
