"""Assigned groups in SQL: fair shares, fenced commits, exactly once with the effect."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fixtures.asking import Session, ask, call, column, refused, writing_nothing
from tests.log.steps import (
    TOPIC,
    append,
    claim,
    commit,
    configure,
    create,
    create_anew,
    die,
    fetch,
    fill,
    join,
    maintain,
    process,
    restore,
    seal,
)

if TYPE_CHECKING:
    from tests.fixtures.asking import Connect
    from tests.fixtures.postgres import TwoSessions
    from tests.log.steps import Share

steady = settings(
    deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Member = tuple[UUID, str]


@pytest.fixture
def topic(session: Session) -> str:
    """Ten messages in one partition."""
    create(session)
    fill(session, 10)
    return TOPIC


@pytest.fixture
def life(session: Session) -> int:
    """The present life of the server."""
    present: int = ask(session, "select trunkline.incarnation()")
    return present


def position(session: Session, group: str = "billing", partition: int = 0) -> int:
    rows = call(session, "log_groups", topic=TOPIC, group_name=group)
    (up_to,) = [row[4] for row in rows if row[3] == partition]
    return int(up_to)


def leave(session: Session, member: Member, partitions: list[int] | None = None) -> None:
    session.execute(
        "select trunkline.log_leave(%s, 'billing', %s, %s, %s)", [TOPIC, *member, partitions]
    )


# Joining


def test_a_new_group_starts_at_the_first_offset(session: Session, topic: str) -> None:
    ((partition, epoch, up_to, surplus),) = join(session, process(session))
    assert (partition, epoch, up_to, surplus) == (0, 1, 0, False)


@pytest.mark.parametrize(("start", "up_to"), [("earliest", 0), ("latest", 10), ("4", 3)])
def test_a_new_group_starts_where_it_is_told_to(
    session: Session, topic: str, start: str, up_to: int
) -> None:
    who = process(session)
    for words in (start, "earliest"):  # the second counts for nothing: the group is there
        rows = call(
            session, "log_join", topic=TOPIC, group_name="billing", process=who, start=words
        )
        assert [row[2] for row in rows] == [up_to]


def test_groups_progress_apart(session: Session, topic: str) -> None:
    who = process(session)
    (a,), (b,) = join(session, who, group="a"), join(session, who, group="b")
    commit(session, a, 7, group="a")
    assert (position(session, "a"), position(session, "b")) == (7, 0)
    commit(session, b, 2, group="b")
    assert (position(session, "a"), position(session, "b")) == (7, 2)


def test_joining_again_writes_nothing_when_nothing_changed(session: Session, topic: str) -> None:
    who = process(session)
    first = join(session, who)
    with writing_nothing(session):
        assert join(session, who) == first


def test_a_process_without_a_living_lease_may_not_join(session: Session, topic: str) -> None:
    with refused("TL423"):
        join(session, uuid4())
    late = process(session)
    die(session, late)
    with refused("TL423"):
        join(session, late)
    assert column(session, "select party from trunkline.party") == []


def test_a_snapshot_that_is_too_old_to_find_a_position_is_refused(
    session: Session, topic: str, connect: Connect
) -> None:
    who = process(session)
    (share,) = join(session, who)
    commit(session, share, 6)
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1")
    configure(
        session,
        ring__cursor__rotate_every="1 millisecond",
        ring__cursor__slots="3",
        maintain__settle="0",
    )
    for _ in range(10):
        claim(session, 1, group="busy")
        maintain(session)
    with refused("40001"):
        join(old, who)
    old.rollback()
    assert [share.up_to for share in join(old, who)] == [6]


def test_a_commit_with_an_older_snapshot_does_not_move_a_group_back(
    session: Session, topic: str, connect: Connect
) -> None:
    (share,) = join(session, process(session))
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1")
    commit(session, share, 6)
    with refused("40001"):
        commit(old, share, 3)
    old.rollback()
    commit(old, share, 3)
    assert position(session) == 6


@pytest.mark.parametrize("sealed", [(), (5,), (10,)])
def test_a_commit_of_what_another_life_of_the_server_wrote_is_refused_with_the_cut(
    session: Session, life: int, sealed: tuple[int, ...]
) -> None:
    """The server failed over to a standby that had only five of the messages that were read."""
    create(session)
    newer = 0
    for offset in range(1, 11):
        if offset == 6:
            newer = restore(session)
        append(session, b"x")
        if offset in sealed:
            seal(session)
    (share,) = join(session, process(session))
    commit(session, share, 5, incarnation=life)
    for up_to, cut in ((6, 5), (10, 5), (11, 10)):
        with refused("TL410") as caught:
            commit(session, share, up_to, incarnation=life)
        assert json.loads(caught.value.diag.message_detail or "{}")["cut"] == cut
    assert position(session) == 5
    commit(session, share, 10, incarnation=newer)
    assert position(session) == 10


def test_a_commit_in_a_snapshot_that_does_not_see_the_messages_is_to_be_tried_again(
    session: Session, topic: str, connect: Connect, life: int
) -> None:
    (share,) = join(session, process(session))
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1")
    fill(session, 2)
    with refused("40001"):
        commit(old, share, 12, incarnation=life)
    old.rollback()
    commit(old, share, 12, incarnation=life)


def test_what_left_while_it_was_worked_on_can_be_committed(session: Session, life: int) -> None:
    create(session)
    fill(session, 10)
    restore(session)
    (share,) = join(session, process(session))
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=8)
    commit(session, share, 5, incarnation=life)
    commit(session, share, 7, incarnation=life)
    assert position(session) == 7


def test_a_lease_that_ends_while_its_process_joins_is_told(session: Session, topic: str) -> None:
    who = process(session)
    with session.transaction(force_rollback=True):
        session.execute(
            """create function pg_temp.end_leases() returns trigger language plpgsql as $$
               begin
                 update trunkline.lease set expires = clock_timestamp();
                 return null;
               end $$;
               create trigger late after insert on trunkline.party
                 execute function pg_temp.end_leases()"""
        )
        with refused("TL423"):
            join(session, who)


def test_a_group_made_at_once_by_many_keeps_its_position(
    session: Session, topic: str, connect: Connect
) -> None:
    with ThreadPoolExecutor(8) as threads:
        members = [(connect(), process(session)) for _ in range(8)]
        shares = list(threads.map(lambda who: join(*who), members))
    owned = [share for shares_of_one in shares for share in shares_of_one]
    assert [share.up_to for share in owned] == [0]
    assert ask(session, "select count(*) from trunkline.log_group") == 1
    commit(session, owned[0], 5)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda who: join(*who), members))
    assert position(session) == 5


def test_a_member_takes_all_and_shares_when_another_comes(session: Session) -> None:
    create(session, partitions=5)
    first, second = process(session), process(session)
    assert len(join(session, first)) == 5
    assert join(session, second) == []
    surplus = [share.partition for share in join(session, first) if share.surplus]
    assert len(surplus) in (2, 3)
    leave(session, (first, ""), surplus)
    taken = join(session, second)
    assert [share.partition for share in taken] == surplus
    assert {share.epoch for share in taken} == {2}


@steady
@given(
    partitions=st.integers(1, 9),
    waves=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 2), st.integers(0, 3)), min_size=1, max_size=3
    ),
)
def test_shares_are_fair_for_any_number_of_members(
    session: Session, partitions: int, waves: list[tuple[int, int, int]]
) -> None:
    """In each wave processes with some members each come, and some of those there die."""
    create_anew(session, partitions=partitions)
    members: list[Member] = []
    for comers, names, deaths in waves:
        for _ in range(comers):
            who = process(session)
            members += [(who, str(name)) for name in range(names)]
        dead = {who for who, _ in members[:deaths]}
        die(session, *dead)
        members = [member for member in members if member[0] not in dead]
        if members:
            owned = settled(session, members)
            flat = sorted(partition for mine in owned for partition in mine)
            assert flat == list(range(partitions))
            assert max(map(len, owned)) - min(map(len, owned)) <= 1


def settled(session: Session, members: list[Member]) -> list[list[int]]:
    """Let the members join in turn, and give back what is too much, until nothing changes."""
    before: list[list[int]] = []
    for _ in range(5):
        owned = []
        for member in members:
            shares = join(session, *member)
            surplus = [share.partition for share in shares if share.surplus]
            if surplus:
                leave(session, member, surplus)
            owned.append([share.partition for share in shares if not share.surplus])
        if owned == before:
            return owned
        before = owned
    raise AssertionError("the shares do not settle")


def test_members_that_join_at_once_never_own_the_same_partition(
    session: Session, connect: Connect
) -> None:
    create(session, partitions=7)
    members = [(connect(), process(session)) for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        for _ in range(4):
            rounds = list(threads.map(lambda who: join(*who), members))
            owned = [share.partition for shares in rounds for share in shares]
            assert len(owned) == len(set(owned))
            for (own, who), shares in zip(members, rounds, strict=True):
                leave(own, (who, ""), [share.partition for share in shares if share.surplus])
    assert sorted(owned) == list(range(7))


def test_partitions_that_are_added_are_shared_out_too(session: Session) -> None:
    create(session)
    who = process(session)
    join(session, who)
    call(session, "log_alter", topic=TOPIC, partitions=3)
    fill(session, 2, partition=2)
    assert [(share.partition, share.up_to) for share in join(session, who)] == [
        (0, 0),
        (1, 0),
        (2, 0),
    ]


def test_leaving_frees_everything_at_once(session: Session) -> None:
    create(session, partitions=3)
    first, second = process(session), process(session)
    join(session, first)
    leave(session, (first, ""))
    assert [share.epoch for share in join(session, second)] == [2, 2, 2]


def test_a_process_that_ends_its_lease_frees_everything_at_once(session: Session) -> None:
    create(session, partitions=3)
    first, second = process(session), process(session)
    join(session, first)
    session.execute("select trunkline.lease_end(%s)", [first])
    assert [share.partition for share in join(session, second)] == [0, 1, 2]


def test_groups_tell_who_owns_what_and_how_far_behind_it_is(session: Session, topic: str) -> None:
    who = process(session)
    (share,) = join(session, who)
    commit(session, share, 4)
    ((*_, up_to, last, lag, _lost, claims, epoch, owner, name, _moved),) = call(
        session, "log_groups"
    )
    assert (up_to, last, lag, claims, epoch, owner, name) == (4, 10, 6, 0, 1, who, "test")
    assert call(session, "log_lag") == [(TOPIC, "billing", 6, 0, 1, 1)]


# Take-over


def test_the_partitions_of_a_crashed_process_are_taken_over_and_it_cannot_commit(
    session: Session, topic: str
) -> None:
    zombie, heir = process(session), process(session)
    (held,) = join(session, zombie)
    commit(session, held, 3)
    assert join(session, heir) == []
    die(session, zombie)
    ((partition, epoch, up_to, _),) = join(session, heir)
    assert (partition, epoch, up_to) == (0, held.epoch + 1, 3)
    for offset in (3, 4):
        with refused("TL423"):
            commit(session, held, offset)
    assert position(session) == 3


def test_a_zombie_that_renews_its_lease_is_still_fenced(session: Session, topic: str) -> None:
    zombie, heir = process(session), process(session)
    (held,) = join(session, zombie)
    die(session, zombie)
    (taken,) = join(session, heir)
    session.execute("select trunkline.lease_renew(%s, 'back')", [zombie])
    assert join(session, zombie) == []
    with refused("TL423"):
        commit(session, held, 5)
    commit(session, taken, 5)


COMMIT = "select trunkline.log_commit(%s, 'billing', 0, %s, %s)"
JOIN = "select epoch, up_to from trunkline.log_join(%s, 'billing', %s)"


@pytest.mark.parametrize(("ending", "up_to"), [("commit", 6), ("rollback", 0)])
def test_a_take_over_comes_after_a_commit_under_way_and_sees_it(
    session: Session, topic: str, two: TwoSessions, ending: str, up_to: int
) -> None:
    zombie, heir = process(session), process(session)
    (held,) = join(session, zombie)
    two.a.execute(COMMIT, [TOPIC, held.epoch, 6])
    die(session, zombie)
    assert two.b.execute(JOIN, [TOPIC, heir]).fetchall() == []
    two.b.commit()
    getattr(two.a, ending)()
    assert two.b.execute(JOIN, [TOPIC, heir]).fetchone() == (held.epoch + 1, up_to)


def test_a_commit_waits_for_a_take_over_under_way_and_is_refused(
    session: Session, topic: str, two: TwoSessions
) -> None:
    zombie, heir = process(session), process(session)
    (held,) = join(session, zombie)
    die(session, zombie)
    two.b.execute(JOIN, [TOPIC, heir])
    late = two.later(two.a, COMMIT, [TOPIC, held.epoch, 6])
    two.blocked_by(two.b, two.a)
    two.b.commit()
    with refused("TL423"):
        late.result(10)
    two.a.rollback()
    assert position(session) == 0


# Commits


@pytest.fixture
def share(session: Session, topic: str) -> Share:
    session.execute("create table if not exists public.effect (log_offset bigint)")
    session.execute("truncate public.effect")
    return join(session, process(session))[0]


def effects(session: Session) -> list[int]:
    return column(session, "select log_offset from public.effect order by 1")


def test_a_commit_in_the_transaction_of_the_effect_is_done_with_it(
    session: Session, share: Share
) -> None:
    with session.transaction():
        session.execute("insert into public.effect select generate_series(1, 5)")
        commit(session, share, 5)
    assert (effects(session), position(session)) == ([1, 2, 3, 4, 5], 5)


def test_rolling_back_the_effect_rolls_back_the_commit(session: Session, share: Share) -> None:
    with session.transaction(force_rollback=True):
        session.execute("insert into public.effect select generate_series(1, 5)")
        commit(session, share, 5)
    assert (effects(session), position(session)) == ([], 0)


def test_the_effect_of_a_zombie_is_rolled_back_with_its_commit(
    session: Session, share: Share
) -> None:
    call(session, "log_seek", topic=TOPIC, group_name="billing", start="earliest")
    with refused("TL423"), session.transaction():
        session.execute("insert into public.effect values (1)")
        commit(session, share, 1)
    assert effects(session) == []


def test_a_commit_never_goes_back(session: Session, share: Share) -> None:
    commit(session, share, 6)
    for offset in (6, 5, 1, 0):
        with session.transaction():
            commit(session, share, offset)
        assert position(session) == 6


def test_commits_wait_for_each_other_and_the_highest_stays(
    session: Session, share: Share, two: TwoSessions
) -> None:
    two.a.execute(COMMIT, [TOPIC, share.epoch, 8])
    lower = two.later(two.b, COMMIT, [TOPIC, share.epoch, 5])
    two.blocked_by(two.a, two.b)
    two.a.commit()
    lower.result(10)
    two.b.commit()
    assert position(session) == 8


def test_an_offset_that_is_not_there_cannot_be_committed(session: Session, share: Share) -> None:
    with refused("TL422"):
        commit(session, share, 11)
    append(session, b"x")
    commit(session, share, 11)


def test_a_shared_group_knows_no_commits(session: Session, topic: str) -> None:
    claim(session, 3)
    with refused("TL423"):
        call(
            session,
            "log_commit",
            topic=TOPIC,
            group_name="readers",
            partition=0,
            epoch=1,
            up_to=2,
        )


# Seeking


def test_a_seek_fences_the_member_which_then_continues_from_there(
    session: Session, share: Share
) -> None:
    commit(session, share, 9)
    assert call(session, "log_seek", topic=TOPIC, group_name="billing", start="4") == [(0, 4)]
    with refused("TL423"):
        commit(session, share, 10)
    owner = ask(session, "select process from trunkline.party")
    (again,) = join(session, owner)
    assert (again.up_to, again.epoch > share.epoch) == (3, True)
    commit(session, again, 4)
    assert position(session) == 4


def test_a_seek_waits_for_a_commit_under_way(
    session: Session, share: Share, two: TwoSessions
) -> None:
    two.a.execute(COMMIT, [TOPIC, share.epoch, 8])
    seek = "select from_offset from trunkline.log_seek(%s, 'billing', 'earliest')"
    moving = two.later(two.b, seek, [TOPIC])
    two.blocked_by(two.a, two.b)
    two.a.commit()
    assert moving.result(10).fetchone() == (1,)
    two.b.commit()
    assert position(session) == 0


@pytest.mark.parametrize("deletion", ["log_delete(%s)", "log_group_delete(%s, 'billing')"])
@pytest.mark.parametrize(
    "waiting", ["log_seek(%s, 'billing', '4')", "log_progress(%s, 'billing', '{0}', '{4}')"]
)
def test_who_waits_while_a_group_is_deleted_is_told_and_leaves_nothing_behind(
    session: Session, share: Share, two: TwoSessions, waiting: str, deletion: str
) -> None:
    die(session, ask(session, "select process from trunkline.party"))
    two.a.execute(f"select trunkline.{deletion}", [TOPIC])
    moving = two.later(two.b, f"select trunkline.{waiting}", [TOPIC])
    two.blocked_by(two.a, two.b)
    two.a.commit()
    with refused("TL404"):
        moving.result(10)
    two.b.rollback()
    assert ask(session, "select count(*) from trunkline.cursor_key where resource ~ '^log'") == 0


def test_a_seek_moves_all_partitions_or_one(session: Session) -> None:
    create(session, partitions=3)
    for partition in range(3):
        fill(session, 4, partition=partition)
    join(session, process(session))
    seek = "select * from trunkline.log_seek(%s, 'billing', %s, %s)"
    assert session.execute(seek, [TOPIC, "latest", None]).fetchall() == [(0, 5), (1, 5), (2, 5)]
    assert session.execute(seek, [TOPIC, "2", 1]).fetchall() == [(1, 2)]
    at = ask(session, "select at from trunkline.log_fetch(%s, 2, 1)", [TOPIC])
    assert session.execute(seek, [TOPIC, at.isoformat(), 2]).fetchall() == [(2, 1)]
    after = (at + timedelta(hours=1)).isoformat()
    assert session.execute(seek, [TOPIC, after, 0]).fetchall() == [(0, 5)]
    assert [position(session, partition=number) for number in range(3)] == [4, 1, 0]


def seek(session: Session, start: str, group: str = "billing") -> None:
    call(session, "log_seek", topic=TOPIC, group_name=group, start=start)


def test_a_group_that_was_sought_to_earliest_begins_where_the_log_starts_by_then(
    session: Session, share: Share
) -> None:
    commit(session, share, 9)
    seek(session, "earliest")
    assert position(session) == 0
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=7)
    assert position(session) == 6
    (again,) = join(session, ask(session, "select process from trunkline.party"))
    assert again.up_to == 6
    commit(session, again, 7)
    assert position(session) == 7


def test_a_group_that_began_at_the_earliest_is_told_when_retention_passes_it(
    session: Session, share: Share
) -> None:
    seek(session, "earliest")
    who = ask(session, "select process from trunkline.party")
    first = join(session, who)
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=7)
    with writing_nothing(session):
        assert join(session, who) == first
    with refused("TL410"):
        fetch(session, first[0].up_to + 1)


def test_a_group_that_was_sought_to_an_offset_is_told_when_it_has_left(
    session: Session, share: Share
) -> None:
    seek(session, "1")
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=7)
    (again,) = join(session, ask(session, "select process from trunkline.party"))
    assert again.up_to == 0


def test_joining_after_a_seek_waits_for_no_commit_of_before_it(
    session: Session, share: Share, two: TwoSessions
) -> None:
    seek(session, "earliest")
    who = ask(session, "select process from trunkline.party")
    two.a.execute(
        "select trunkline._cursor_hold(trunkline._log_resource(topic_id, 'billing', 0))"
        " from trunkline.log_topic"
    )
    assert [taken.up_to for taken in join(session, who)] == [0]
    two.a.rollback()
    assert [taken.up_to for taken in join(session, who)] == [0]
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=7)
    assert [taken.up_to for taken in join(session, who)] == [0]


def test_a_seek_that_fails_on_one_partition_moves_none(session: Session) -> None:
    create(session, partitions=2)
    fill(session, 4, partition=0)
    join(session, process(session))
    with refused("TL410"):
        call(session, "log_seek", topic=TOPIC, group_name="billing", start="3")
    assert [position(session, partition=number) for number in range(2)] == [0, 0]


def test_a_member_of_a_deleted_group_cannot_commit_in_the_one_made_anew(
    session: Session, share: Share
) -> None:
    call(session, "log_group_delete", topic=TOPIC, group_name="billing")
    join(session, process(session))
    with refused("TL423"):
        commit(session, share, 5)
    assert position(session) == 0


def test_a_member_of_a_deleted_topic_cannot_commit_in_the_one_made_anew(
    session: Session, share: Share
) -> None:
    for _ in range(2):
        call(session, "log_delete", topic=TOPIC)
        create(session)
        fill(session, 10)
    ((_, epoch, up_to, _),) = join(session, process(session))
    assert (epoch > share.epoch, up_to) == (True, 0)
    for old_offset in (5, 50):
        with refused("TL423"):
            commit(session, share, old_offset)
    assert position(session) == 0


def test_who_joins_while_the_topic_is_deleted_is_told(
    session: Session, topic: str, two: TwoSessions
) -> None:
    zombie, heir = process(session), process(session)
    join(session, zombie)
    call(session, "log_alter", topic=TOPIC, partitions=2)  # of which nobody has owned the second
    die(session, zombie)
    two.a.execute("select trunkline.log_delete(%s)", [TOPIC])
    joining = two.later(two.b, JOIN, [TOPIC, heir])
    two.blocked_by(two.a, two.b)
    two.a.commit()
    with refused("TL404"):
        joining.result(10)


def test_epochs_of_a_deleted_topic_are_forgotten_after_a_day(
    session: Session, share: Share
) -> None:
    for topic, left in ((TOPIC, 1), ("other", 0)):
        create(session, topic)
        call(session, "log_delete", topic=topic)
        assert ask(session, "select count(*) from trunkline.owner") == left
        session.execute("update trunkline.owner set since = since - interval '1 day'")


def test_a_group_that_was_deleted_begins_anew(session: Session, share: Share) -> None:
    commit(session, share, 6)
    call(session, "log_group_delete", topic=TOPIC, group_name="billing")
    with refused("TL423"):
        commit(session, share, 7)
    with refused("TL404"):
        call(session, "log_group_delete", topic=TOPIC, group_name="billing")
    ((_, epoch, up_to, _),) = join(session, process(session))
    assert (epoch > share.epoch, up_to) == (True, 0)


def test_a_group_behind_the_floor_is_told_where_the_log_starts(
    session: Session, share: Share
) -> None:
    commit(session, share, 2)
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=6)
    owner = ask(session, "select process from trunkline.party")
    ((_, _, up_to, _),) = join(session, owner)
    assert up_to == 2
    with refused("TL410") as caught:
        fetch(session, up_to + 1)
    assert "starts at 6, asked for 3" in str(caught.value)


# Progress that is kept elsewhere


def test_progress_in_a_snapshot_that_does_not_see_the_messages_is_to_be_tried_again(
    session: Session, topic: str, connect: Connect
) -> None:
    noted = {"topic": TOPIC, "group_name": "spark", "partitions": [0], "up_to": [12]}
    old = connect(autocommit=False)
    old.execute("set transaction isolation level repeatable read")
    old.execute("select 1")
    fill(session, 2)
    with refused("40001"):
        call(old, "log_progress", **noted)
    old.rollback()
    call(old, "log_progress", **noted)
    old.commit()
    assert position(session, "spark") == 12


# How far behind


def behind(session: Session) -> tuple[int, timedelta]:
    ((*_, lag, age),) = call(session, "log_behind", topic=TOPIC, group_name="billing")
    return lag, age


def test_a_group_is_behind_for_as_long_as_the_first_message_waits_that_it_has_not_done(
    session: Session,
) -> None:
    create(session)
    (share,) = join(session, process(session))
    assert behind(session) == (0, timedelta(0))
    for hours in (2, 1):
        fill(session, 5)
        segment = ask(session, "select max(segment_id) from trunkline.log_segment")
        session.execute(f"update trunkline.log_segment_{segment} set at = at - interval '{hours}h'")
        seal(session)
    fill(session, 5)
    for up_to, lag, hours in ((0, 15, 2), (4, 11, 2), (5, 10, 1), (10, 5, 0)):
        commit(session, share, up_to)
        found, age = behind(session)
        assert (found, age // timedelta(hours=1)) == (lag, hours)
        assert age > timedelta(0)
    commit(session, share, 15)
    assert behind(session) == (0, timedelta(0))
