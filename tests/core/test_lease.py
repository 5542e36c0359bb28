"""Leases and owners: who works on what, and how those before are kept from acknowledging."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.fixtures.asking import ask, column, refused, writing_nothing
from tests.fixtures.postgres import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import AnyServer, TwoSessions

Session = psycopg.Connection[Any]
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
TTL = timedelta(seconds=30)


@pytest.fixture(scope="module")
def dsn(server: AnyServer, template: str) -> Iterator[str]:
    """One database for all tests; `session` empties it."""
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture(autouse=True)
def session(dsn: str) -> Iterator[Session]:
    with psycopg.connect(dsn, autocommit=True) as opened:
        opened.execute(
            "truncate trunkline.lease, trunkline.owner, trunkline.party, trunkline.incarnation"
        )
        opened.execute("update trunkline.config set value = default_value")
        yield opened


def renew(session: Session, process: UUID, at: datetime = NOON) -> datetime:
    answer: datetime = ask(session, "select trunkline._lease_renew(%s, 'test', %s)", [process, at])
    return answer


def take(
    session: Session, resource: str, process: UUID, at: datetime = NOON, member: str = ""
) -> int | None:
    values = [resource, process, member, at]
    epoch: int | None = ask(session, "select trunkline._owner_take(%s, %s, %s, %s)", values)
    return epoch


def acknowledge(session: Session, resource: str, epoch: int) -> None:
    session.execute("select trunkline._owner_check(%s, %s)", [resource, epoch])


def newcomer(session: Session, at: datetime = NOON) -> UUID:
    process = uuid4()
    renew(session, process, at)
    return process


def test_a_lease_ends_one_ttl_after_its_renewal(session: Session) -> None:
    process = uuid4()
    assert renew(session, process) == NOON + TTL
    living = "select trunkline._lease_living(%s, %s)"
    assert ask(session, living, [process, NOON + TTL - timedelta(microseconds=1)])
    assert not ask(session, living, [process, NOON + TTL])


def test_a_lease_that_is_let_run_out_leaves_what_one_leaves_who_died(session: Session) -> None:
    process = newcomer(session)  # of the year 2030: living
    take(session, "r", process)
    session.execute("select trunkline._lease_expire(%s)", [process])
    assert not ask(session, "select trunkline._lease_living(%s)", [process])
    assert column(session, "select process from trunkline.owner") == [process]


def test_the_ttl_is_a_setting_that_counts_from_the_next_renewal_on(session: Session) -> None:
    process = newcomer(session)
    session.execute("select trunkline.config_set('lease.ttl', '5 minutes')")
    assert renew(session, process) == NOON + timedelta(minutes=5)


def test_a_renewal_never_shortens_a_lease(session: Session) -> None:
    process = newcomer(session, NOON)
    renew(session, process, NOON - timedelta(hours=1))
    assert column(session, "select expires from trunkline.lease") == [NOON + TTL]


def test_the_public_functions_go_by_the_clock_of_the_server(session: Session) -> None:
    process = uuid4()
    session.execute("select trunkline.lease_renew(%s, 'here')", [process])
    assert timedelta(0) < ask(session, "select trunkline.lease_rest(%s)", [process]) <= TTL
    assert ask(session, "select trunkline.lease_rest(%s)", [uuid4()]) is None
    assert ask(session, "select trunkline.owner_take('r', %s)", [process]) == 1
    listed = session.execute("select name, living, owns from trunkline.lease_list()").fetchall()
    assert listed == [("here", True, 1)]


def test_only_a_living_process_may_take(session: Session) -> None:
    silent = newcomer(session, NOON - TTL)
    for process in (uuid4(), silent):
        with refused("TL423") as caught:
            take(session, "r", process)
        assert str(process) in str(caught.value)
    assert column(session, "select resource from trunkline.owner") == []


def test_what_a_living_process_owns_is_not_given_away(session: Session) -> None:
    first, second = newcomer(session), newcomer(session)
    assert take(session, "r", first) == 1
    assert take(session, "r", second) is None
    assert take(session, "r", first) == 1


def test_the_members_of_one_process_are_told_apart(session: Session) -> None:
    process = newcomer(session)
    assert take(session, "r", process, member="a") == 1
    assert take(session, "r", process, member="b") is None
    assert take(session, "s", process, member="b") == 1
    assert take(session, "r", process, member="a") == 1


def test_a_take_over_raises_the_epoch_and_refuses_the_one_before(session: Session) -> None:
    first, second = newcomer(session), newcomer(session, NOON + TTL)
    take(session, "r", first)
    acknowledge(session, "r", 1)
    assert take(session, "r", second, NOON + TTL) == 2
    with refused("TL423") as caught:
        acknowledge(session, "r", 1)
    assert '"present": 2' in (caught.value.diag.message_detail or "")
    assert 'epoch 1 of "r" is over: epoch 2 owns it now.' in str(caught.value)
    acknowledge(session, "r", 2)


def test_who_gave_a_resource_back_is_not_told_that_another_owns_it(session: Session) -> None:
    process = newcomer(session)
    take(session, "r", process)
    session.execute("select trunkline.owner_release('r', 1)")
    for resource in ("r", "never taken"):
        with refused("TL423") as caught:
            acknowledge(session, resource, 1)
        assert f'epoch 1 of "{resource}" is over: nobody owns it now.' in str(caught.value)


def test_a_zombie_stays_refused_though_it_renews_its_lease(session: Session) -> None:
    zombie, heir = newcomer(session), newcomer(session, NOON + TTL)
    take(session, "r", zombie)
    take(session, "r", heir, NOON + TTL)
    renew(session, zombie, NOON + TTL)
    with refused("TL423"):
        acknowledge(session, "r", 1)
    assert take(session, "r", zombie, NOON + TTL) is None


def test_a_late_process_that_nobody_replaced_goes_on_with_its_epoch(session: Session) -> None:
    process = newcomer(session)
    take(session, "r", process)
    renew(session, process, NOON + 10 * TTL)
    assert take(session, "r", process, NOON + 10 * TTL) == 1
    acknowledge(session, "r", 1)


def test_an_epoch_that_never_was_is_refused(session: Session) -> None:
    take(session, "r", newcomer(session))
    for resource, epoch in (("r", 2), ("r", 0), ("nothing", 1)):
        with refused("TL423"):
            acknowledge(session, resource, epoch)


def test_a_refused_acknowledgement_leaves_nothing_of_its_transaction(session: Session) -> None:
    first, second = newcomer(session), newcomer(session, NOON + TTL)
    take(session, "r", first)
    take(session, "r", second, NOON + TTL)
    with refused("TL423"), session.transaction():
        session.execute("select trunkline._cursor_write(trunkline._cursor_ensure('r'), 7)")
        acknowledge(session, "r", 1)
    assert ask(session, "select count(*) from trunkline.cursor_key where resource = 'r'") == 0


def test_what_is_being_acknowledged_is_not_handed_over(two_sessions: TwoSessions) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    first, second = newcomer(watcher), newcomer(watcher, NOON + TTL)
    take(watcher, "r", first)
    acknowledge(a, "r", 1)
    b.execute("set lock_timeout = '1s'")
    assert take(b, "r", second, NOON + TTL) is None
    a.commit()
    assert take(b, "r", second, NOON + TTL) == 2


def test_giving_back_waits_for_an_acknowledgement(two_sessions: TwoSessions) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    process = newcomer(watcher)
    take(watcher, "r", process)
    acknowledge(a, "r", 1)
    giving = two_sessions.later(b, "select trunkline.owner_release('r', 1)", [])
    two_sessions.blocked_by(a, b)
    a.commit()
    giving.result(10)


def test_the_end_of_a_lease_waits_for_no_acknowledgement(two_sessions: TwoSessions) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    process, heir = newcomer(watcher), newcomer(watcher)
    take(watcher, "r", process)
    take(watcher, "s", process)
    acknowledge(a, "r", 1)
    b.execute("set lock_timeout = '1s'")
    assert ask(b, "select trunkline.lease_end(%s)", [process]) == 1
    b.commit()
    assert take(watcher, "s", heir) == 2
    assert take(watcher, "r", heir) is None
    a.commit()
    assert take(watcher, "r", heir) == 2


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_an_acknowledgement_waits_for_the_outcome_of_a_hand_over(
    two_sessions: TwoSessions, outcome: str
) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    first, second = newcomer(watcher), newcomer(watcher, NOON + TTL)
    take(watcher, "r", first)
    take(a, "r", second, NOON + TTL)
    checking = two_sessions.later(b, "select trunkline._owner_check('r', 1)")
    two_sessions.blocked_by(a, b)
    if outcome == "commit":
        a.commit()
        with refused("TL423"):
            checking.result(10)
    else:
        a.rollback()
        checking.result(10)


def test_an_old_snapshot_cannot_acknowledge_past_a_hand_over(two_sessions: TwoSessions) -> None:
    a, watcher = two_sessions.a, two_sessions.watcher
    first, second = newcomer(watcher), newcomer(watcher, NOON + TTL)
    take(watcher, "r", first)
    a.execute("set transaction isolation level repeatable read")
    a.execute("select 1 from trunkline.owner")
    take(watcher, "r", second, NOON + TTL)
    with refused("40001"):
        acknowledge(a, "r", 1)


def test_acknowledgements_of_one_owner_do_not_wait_for_each_other(
    two_sessions: TwoSessions,
) -> None:
    process = newcomer(two_sessions.watcher)
    take(two_sessions.watcher, "r", process)
    acknowledge(two_sessions.a, "r", 1)
    two_sessions.b.execute("set lock_timeout = '1ms'")
    acknowledge(two_sessions.b, "r", 1)


@pytest.mark.parametrize("before", ["new", "expired", "free"])
def test_of_many_who_race_for_a_resource_exactly_one_gets_it(
    dsn: str, session: Session, before: str
) -> None:
    rounds, racers = 25, 4
    later = NOON + TTL
    if before != "new":
        previous = newcomer(session)
        for number in range(rounds):
            take(session, f"r{number}", previous)
    if before == "free":
        session.execute("select trunkline.lease_end(%s)", [previous])
    processes = [newcomer(session, later) for _ in range(racers)]
    start = threading.Barrier(racers)

    def race(process: UUID) -> list[int | None]:
        with closing(psycopg.connect(dsn, autocommit=True)) as own:
            taken = []
            for number in range(rounds):
                start.wait(10)
                taken.append(take(own, f"r{number}", process, later))
            return taken

    with ThreadPoolExecutor(racers) as threads:
        results = list(threads.map(race, processes))
    epoch = 1 if before == "new" else 2
    for answers in zip(*results, strict=True):
        assert sorted(answers, key=str) == [epoch, *[None] * (racers - 1)]
    owners = session.execute("select epoch, process from trunkline.owner").fetchall()
    assert {row[0] for row in owners} == {epoch}
    assert {row[1] for row in owners} <= set(processes)


def test_asking_again_for_what_one_owns_or_cannot_get_writes_nothing(session: Session) -> None:
    mine, other = newcomer(session), newcomer(session)
    take(session, "r", mine)
    with writing_nothing(session):
        assert take(session, "r", mine) == 1
        assert take(session, "r", other) is None


def test_a_renewal_writes_the_one_row_of_its_process(session: Session) -> None:
    process = newcomer(session)
    for number in range(50):
        take(session, f"r{number}", process)
    before = column(session, "select xmin::text from trunkline.owner")
    renew(session, process, NOON + TTL)
    assert column(session, "select xmin::text from trunkline.owner") == before
    assert ask(session, "select count(*) from trunkline.lease") == 1


def test_leaving_in_good_order_frees_everything_at_once(session: Session) -> None:
    process, heir = newcomer(session), newcomer(session)
    for number in range(5):
        take(session, f"r{number}", process, member=str(number))
    assert ask(session, "select trunkline.lease_end(%s)", [process]) == 5
    for number in range(5):
        with refused("TL423"):
            acknowledge(session, f"r{number}", 1)
        assert take(session, f"r{number}", heir) == 2
    assert column(session, "select process from trunkline.lease") == [heir]
    assert ask(session, "select trunkline.lease_end(%s)", [process]) == 0


def test_giving_back_needs_the_present_epoch(session: Session) -> None:
    process, heir = newcomer(session), newcomer(session)
    release = "select trunkline.owner_release('r', %s)"
    take(session, "r", process)
    assert ask(session, release, [0]) is False
    assert ask(session, release, [1]) is True
    assert ask(session, release, [1]) is False
    with refused("TL423"):
        acknowledge(session, "r", 1)
    assert take(session, "r", heir) == 2
    assert ask(session, release, [1]) is False


def test_who_owns_a_resource_is_told_by_name(session: Session) -> None:
    process = newcomer(session)
    who = "select process, living from trunkline.owner_of('r')"
    assert session.execute(who).fetchall() == []
    take(session, "r", process)
    assert session.execute(who).fetchall() == [(process, True)]
    session.execute("update trunkline.lease set expires = clock_timestamp()")
    assert session.execute(who).fetchall() == [(process, False)]
    session.execute("select trunkline.owner_release('r', 1)")
    assert session.execute(who).fetchall() == []


def test_leases_that_ended_long_ago_are_forgotten(session: Session) -> None:
    now = ask(session, "select clock_timestamp()")
    recent, ancient = uuid4(), uuid4()
    renew(session, recent, now - timedelta(minutes=5))
    renew(session, ancient, now - timedelta(minutes=15))
    session.execute("call trunkline.maintain()")
    assert column(session, "select process from trunkline.lease") == [recent]


def tidy(session: Session, at: datetime) -> None:
    session.execute("select trunkline._leases_expire(%s)", [at])


def test_a_lease_of_a_clock_that_was_ahead_ends_one_ttl_after_that_is_noticed(
    session: Session,
) -> None:
    dead, heir = newcomer(session, NOON + timedelta(hours=1)), uuid4()
    take(session, "r", dead, NOON + timedelta(hours=1))
    tidy(session, NOON)
    tidy(session, NOON + TTL / 2)  # noticed once, not again and again
    renew(session, heir, NOON + TTL / 2)
    assert take(session, "r", heir, NOON + TTL / 2) is None
    renew(session, heir, NOON + TTL)
    assert take(session, "r", heir, NOON + TTL) == 2


def test_a_clock_that_is_set_back_ends_no_lease_that_is_renewed(session: Session) -> None:
    process = newcomer(session, NOON + timedelta(hours=1))
    for seconds in range(0, 120, 10):
        at = NOON + timedelta(seconds=seconds)
        renew(session, process, at)
        tidy(session, at)
        assert ask(session, "select trunkline._lease_living(%s, %s)", [process, at + TTL / 3])
    assert column(session, "select expires from trunkline.lease") == [at + TTL]


def test_a_lease_lasts_as_long_as_it_was_given_though_the_ttl_is_shorter_by_now(
    session: Session,
) -> None:
    session.execute("select trunkline.config_set('lease.ttl', '5 minutes')")
    newcomer(session, NOON)
    session.execute("select trunkline.config_set('lease.ttl', '30 seconds')")
    tidy(session, NOON + TTL)
    assert column(session, "select expires from trunkline.lease") == [NOON + timedelta(minutes=5)]


def share(session: Session, process: UUID, resources: int = 8, member: str = "") -> list[Any]:
    names = [f"r{number}" for number in range(resources)]
    return session.execute(
        "select place, epoch, surplus from trunkline._party_share('party', %s, %s, %s)",
        [names, process, member],
    ).fetchall()


def living(session: Session) -> UUID:
    process = uuid4()
    session.execute("select trunkline.lease_renew(%s)", [process])
    return process


def test_a_party_shares_its_resources_fairly(session: Session) -> None:
    first, second = living(session), living(session)
    alone = share(session, first)
    assert [place for place, _, surplus in alone if not surplus] == list(range(1, 9))
    assert share(session, second) == []
    surplus = [f"r{place - 1}" for place, _, more in share(session, first) if more]
    assert len(surplus) == 4
    session.execute("select trunkline._party_leave('party', %s, %s, '', false)", [surplus, first])
    assert [epoch for _, epoch, _ in share(session, second)] == [2] * 4
    assert [epoch for _, epoch, _ in share(session, first)] == [1] * 4


def test_a_party_passes_on_what_a_silent_process_owned(session: Session) -> None:
    silent, other = living(session), living(session)
    share(session, silent)
    session.execute(
        "update trunkline.lease set expires = clock_timestamp() where process = %s", [silent]
    )
    assert len(share(session, other)) == 8
    session.execute("select trunkline.lease_renew(%s)", [silent])
    assert share(session, silent) == []


def test_a_settled_party_writes_nothing(session: Session) -> None:
    process = living(session)
    share(session, process)
    with writing_nothing(session):
        assert len(share(session, process)) == 8


# Another life of the server: it was restored, or a standby took over that lagged behind


def begin_life(session: Session, *, at: datetime | None = None) -> None:
    """As the first call does that finds another timeline."""
    session.execute("update trunkline.incarnation set timeline = timeline + 1")
    session.execute("select trunkline.incarnation()")
    session.execute(
        "update trunkline.incarnation i set began_at = coalesce(%s, began_at)"
        " where i.incarnation = (select max(incarnation) from trunkline.incarnation)",
        [at],
    )


def two_of(session: Session, process: UUID) -> dict[int, int]:
    session.execute("select trunkline.lease_renew(%s)", [process])
    rows = session.execute(
        "select place, epoch from trunkline._party_share('p', array['r', 's'], %s, '')", [process]
    )
    return dict(rows.fetchall())


def test_an_epoch_ends_with_the_life_of_the_server_that_gave_it(session: Session) -> None:
    process = uuid4()
    before = two_of(session, process)
    acknowledge(session, "r", before[1])
    session.execute("update trunkline.incarnation set timeline = timeline + 1")
    for noted in (False, True):
        if noted:
            session.execute("select trunkline.incarnation()")
        with refused("TL423") as caught:
            acknowledge(session, "r", before[1])
        assert "life of the server" in str(caught.value)
    after = two_of(session, process)
    assert after[1] > before[1]
    assert two_of(session, process) == after
    acknowledge(session, "r", after[1])


def test_an_epoch_that_was_given_after_the_last_thing_that_a_standby_heard_of_is_never_given_again(
    session: Session,
) -> None:
    first, second = uuid4(), uuid4()
    two_of(session, first)
    session.execute("select trunkline.lease_end(%s)", [first])
    with session.transaction(force_rollback=True):  # the standby does not hear of this
        lost = two_of(session, second)
    begin_life(session)
    for process in (first, second, first, second):
        given = two_of(session, process)
        session.execute("select trunkline.lease_end(%s)", [process])
        assert set(given.values()).isdisjoint(lost.values())
    with refused("TL423"):
        acknowledge(session, "r", lost[1])


def test_whoever_comes_first_in_another_life_takes_what_others_owned_before(
    session: Session,
) -> None:
    first, second = uuid4(), uuid4()
    assert sorted(two_of(session, first)) == [1, 2]
    assert two_of(session, second) == {}
    begin_life(session)
    assert sorted(two_of(session, second)) == [1]
    assert sorted(two_of(session, first)) == [2]


def test_a_later_life_has_a_higher_generation_that_fits_into_15_bits(session: Session) -> None:
    present = "select trunkline._generation(trunkline.incarnation())"
    session.execute("select trunkline.incarnation()")
    found = [ask(session, present)]
    for _ in range(20):
        begin_life(session)
        found.append(ask(session, present))
    assert found == sorted(set(found))
    assert 0 < found[0] <= found[-1] < 2**15


def test_who_goes_on_from_a_backup_outranks_what_others_made_of_it(session: Session) -> None:
    present = "select trunkline._generation(trunkline.incarnation())"
    session.execute("select trunkline.incarnation()")
    with session.transaction(force_rollback=True):
        for _ in range(3):
            begin_life(session, at=datetime(2031, 5, 1, tzinfo=UTC))
        others = ask(session, present)
    begin_life(session, at=datetime(2031, 5, 5, tzinfo=UTC))
    assert ask(session, present) > others


@pytest.mark.parametrize("year", [1970, 2500])
def test_a_clock_that_is_far_off_makes_no_generation_that_does_not_fit(
    session: Session, year: int
) -> None:
    session.execute("select trunkline.incarnation()")
    begin_life(session, at=datetime(year, 1, 1, tzinfo=UTC))
    generation = ask(session, "select trunkline._generation(trunkline.incarnation())")
    assert 0 < generation < 2**15
