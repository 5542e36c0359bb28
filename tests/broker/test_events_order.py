"""The order of events: by commit and by number, never by a clock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.broker.steps import events, head, payloads, publish, tick
from tests.fixtures.asking import ask, call, column, connections, refused, writing_nothing
from tests.fixtures.postgres import open_two_sessions

from trunkline.core import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import TwoSessions

    from trunkline.core.embedded import Server


@pytest.fixture
def two(clean_dsn: str) -> Iterator[TwoSessions]:
    with open_two_sessions(clean_dsn) as sessions:
        yield sessions


def test_500_events_published_one_by_one_in_one_transaction_come_in_that_order(
    session: Session, other: Session
) -> None:
    for number in range(500):
        publish(other, "a", number)
    assert tick(session) == 0
    other.commit()
    assert tick(session) == 500
    assert [event.payload for event in events(session)] == list(range(500))


def test_an_open_transaction_delays_its_own_events_and_nobody_elses(
    session: Session, other: Session
) -> None:
    publish(other, "a", "slow")
    for number in range(20):
        publish(session, "a", number)
        assert tick(session) == 1
    other.commit()
    assert payloads(session) == [*range(20), "slow"]


def test_a_publication_in_a_savepoint_that_is_rolled_back_never_was(
    session: Session, other: Session
) -> None:
    publish(other, "a", "kept")
    other.execute("savepoint s")
    publish(other, "a", "undone")
    other.execute("rollback to savepoint s")
    publish(other, "a", "kept too")
    other.commit()
    assert payloads(session) == ["kept", "kept too"]


def test_a_prepared_transaction_publishes_when_it_is_committed(session: Session) -> None:
    for gid in ("kept", "dropped"):
        session.execute("begin")
        publish(session, "a", gid)
        session.execute(f"prepare transaction '{gid}'")
    publish(session, "a", "plain")
    assert payloads(session) == ["plain"]
    session.execute("rollback prepared 'dropped'")
    session.execute("commit prepared 'kept'")
    assert payloads(session) == ["plain", "kept"]


def test_of_many_who_tick_at_once_one_works(
    session: Session, connect: Callable[..., Session]
) -> None:
    for number in range(200):
        publish(session, "a", number)
    tickers = [connect() for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        taken = list(threads.map(tick, tickers))
    assert sorted(taken) == [0, 0, 0, 0, 0, 200]
    assert payloads(session) == list(range(200))


def test_an_idle_tick_and_an_idle_release_write_nothing(session: Session) -> None:
    publish(session, "a")
    publish(session, "a", deliver_at="2100-01-01")
    tick(session)
    with writing_nothing(session):
        assert tick(session) == 0
        assert call(session, "broker_release") == [(0,)]


def test_positions_do_not_depend_on_clocks(session: Session) -> None:
    for number in range(6):
        publish(session, "a", number)
        if number == 2:  # the clock is set back by an hour: what was written before lies ahead
            session.execute("update trunkline.event set at = at + interval '1 hour'")
        if number % 3 == 1:
            tick(session)
            session.execute("update trunkline.tick set at = at + interval '1 hour'")
    assert payloads(session) == list(range(6))
    times = column(session, "select at from trunkline.tick where sequence = 'event' order by tick")
    assert times == sorted(times)


def test_a_restore_into_a_server_with_lower_xids_skips_and_doubles_nothing(
    session: Session, connect: Callable[..., Session]
) -> None:
    ask(session, "select trunkline.incarnation()")
    publish(session, "a", "numbered")
    tick(session)
    publish(session, "a", "not numbered")
    # as if all that is here came from a server that was ten million transactions ahead
    session.execute("""
      update trunkline.event set xid = (xid::text::bigint + 10000000)::text::xid8;
      update trunkline.tick t
         set xids = array(select (x::text::bigint + 10000000)::text::xid8 from unnest(xids) x),
             snapshot = format('%1$s:%1$s:', pg_snapshot_xmax(snapshot)::text::bigint
                                             + 10000000)::pg_snapshot;
      update trunkline.incarnation set system_identifier = system_identifier - 1""")
    slow, quick = connect(autocommit=False), connect()
    publish(slow, "a", "open while the first tick is taken")
    publish(quick, "a", "in the new life")
    assert tick(session) == 2
    publish(quick, "a", "next")
    slow.commit()
    assert payloads(session) == [
        "numbered",
        "not numbered",
        "in the new life",
        "open while the first tick is taken",
        "next",
    ]
    assert tick(session) == 0


def test_published_after_the_row_lock_events_come_in_the_order_of_the_row(
    session: Session, two: TwoSessions
) -> None:
    """Two transactions that overlap: the second cannot publish before the first has ended."""
    session.execute("create table account (id int, total int); insert into account values (1, 0)")
    change = (
        "with changed as (update account set total = total + %(by)s returning total)"
        " select trunkline.broker_publish('account', to_jsonb(total), '1') from changed"
    )
    two.a.execute(change, {"by": 1})
    waiting = two.later(two.b, change, {"by": 10})
    two.blocked_by(two.a, two.b)
    two.a.commit()
    waiting.result(10)
    two.b.commit()
    assert payloads(session) == [1, 11]


def test_published_before_the_row_lock_events_may_come_in_another_order_than_the_row(
    session: Session, two: TwoSessions
) -> None:
    """What the documentation warns of, and `key_order = 'locked'` prevents."""
    session.execute("create table account (id int, total int); insert into account values (1, 0)")
    publish(two.a, "account", "a", key="1")
    publish(two.b, "account", "b", key="1")
    two.b.execute("update account set total = 2")
    two.b.commit()
    two.a.execute("update account set total = 1")
    two.a.commit()
    assert ask(session, "select total from account") == 1
    assert payloads(session) == ["a", "b"]


def test_a_locked_key_makes_overlapping_transactions_publish_one_after_the_other(
    session: Session, two: TwoSessions
) -> None:
    call(session, "broker_topic", topic="account", key_order="locked")
    publish(two.a, "account", "a", key="1")
    waiting = two.later(two.b, "select trunkline.broker_publish('account', '\"b\"', '1')")
    two.blocked_by(two.a, two.b)
    publish(session, "account", "another key", key="2")
    publish(session, "account", "no key")
    publish(session, "elsewhere", "another topic", key="1")
    two.a.commit()
    waiting.result(10)
    two.b.commit()
    assert [p for p in payloads(session) if p in ("a", "b")] == ["a", "b"]

    call(session, "broker_topic", topic="account", key_order="committed")
    publish(two.a, "account", "c", key="1")
    publish(session, "account", "d", key="1")  # waits for nobody any more


def test_a_lock_of_the_application_with_the_number_of_a_locked_key_delays_that_key_only(
    session: Session, two: TwoSessions
) -> None:
    """Advisory locks are shared by all who use the database."""
    call(session, "broker_topic", topic="account", key_order="locked")
    number = "hashtext('trunkline.event account'), hashtext('1')"
    two.a.execute(f"select pg_advisory_xact_lock({number})")
    waiting = two.later(two.b, "select trunkline.broker_publish('account', '1', '1')")
    two.blocked_by(two.a, two.b)
    publish(session, "account", "another key", key="2")
    publish(session, "elsewhere", "another topic", key="1")
    assert tick(session) == 2
    two.a.commit()
    waiting.result(10)
    two.b.commit()
    assert payloads(session) == ["another key", "another topic", 1]


def test_batches_lock_their_keys_in_an_order_that_lets_them_pass(
    session: Session, connect: Callable[..., Session]
) -> None:
    call(session, "broker_topic", topic="account", key_order="locked")
    keys = [str(number) for number in range(20)]

    def batches(of: Session, order: list[str]) -> None:
        for _ in range(20):
            call(
                of,
                "broker_publish_many",
                topics=["account"] * 20,
                payloads=["1"] * 20,
                keys=order,
            )

    with ThreadPoolExecutor(2) as threads:
        jobs = [threads.submit(batches, connect(), order) for order in (keys, keys[::-1])]
        for job in jobs:
            job.result(60)
    tick(session)
    assert head(session) == 800


def publish_numbered(session: Session, last: int) -> None:
    """Publish a batch with keys 1, 2, 3, ... that are payloads too."""
    session.execute(
        "select trunkline.broker_publish_many(array_agg('account'::text),"
        " array_agg(to_jsonb(n)), array_agg(n::text)) from generate_series(1, %s) n",
        [last],
    )


def test_a_batch_has_more_locked_keys_than_the_server_has_locks(session: Session) -> None:
    call(session, "broker_topic", topic="account", key_order="locked")
    publish_numbered(session, 60_000)
    assert tick(session) == 60_000


def test_a_large_batch_and_a_single_event_of_a_locked_key_wait_for_each_other(
    session: Session, two: TwoSessions
) -> None:
    call(session, "broker_topic", topic="account", key_order="locked")
    batch = (
        "select trunkline.broker_publish_many(array_agg('account'::text),"
        " array_agg(to_jsonb(n)), array_agg(n::text)) from generate_series(1, 2000) n"
    )
    single = "select trunkline.broker_publish('account', '\"single\"', '1234')"

    for first, second, expected in (
        (single, batch, ["single", 1234]),
        (batch, single, [1234, "single"]),
        (batch, batch, [1234, 1234]),
    ):
        begins = head(session) + 1
        two.a.execute(first)
        waiting = two.later(two.b, second)
        two.blocked_by(two.a, two.b)
        publish(session, "elsewhere", "another topic", key="1234")
        two.a.commit()
        waiting.result(10)
        two.b.commit()
        assert [p for p in payloads(session, begins) if p in ("single", 1234)] == expected


def test_large_batches_and_small_ones_pass_each_other(
    session: Session, connect: Callable[..., Session]
) -> None:
    call(session, "broker_topic", topic="account", key_order="locked")

    def publishes(of: Session, last: int, rounds: int) -> None:
        for _ in range(rounds):
            publish_numbered(of, last)

    with ThreadPoolExecutor(4) as threads:
        sizes = ((2000, 5), (1500, 5), (900, 5), (3, 50))
        jobs = [threads.submit(publishes, connect(), *size) for size in sizes]
        for job in jobs:
            job.result(60)
    assert tick(session) == sum(last * rounds for last, rounds in sizes)


@pytest.mark.crash
def test_a_transaction_with_more_locked_keys_one_by_one_than_the_server_has_locks_is_told(
    own_server: Callable[..., Server],
) -> None:
    server = own_server(fsync="off", max_connections="20")  # nobody else runs out of locks
    migrate.install(dsn := server.dsn("postgres"))
    with connections(dsn) as connect:
        session = connect()
        call(session, "broker_topic", topic="account", key_order="locked")
        with refused("TL429") as caught:
            session.execute(
                "select trunkline.broker_publish('account', '1', n::text)"
                " from generate_series(1, 60000) n"
            )
        assert "broker_publish_many()" in (caught.value.diag.message_hint or "")
        publish_numbered(session, 60_000)


def test_an_unknown_order_of_keys_is_refused(session: Session) -> None:
    for topic, order in (("a", "random"), ("a", None), ("a\nb", "locked"), (None, "locked")):
        with refused("TL422"):
            call(session, "broker_topic", topic=topic, key_order=order)


def test_a_tick_is_refused_in_a_snapshot_that_it_cannot_renew(other: Session) -> None:
    other.execute("set transaction isolation level repeatable read")
    with refused("TL400"):
        tick(other)


def test_publishing_works_at_every_isolation_level(session: Session, other: Session) -> None:
    for level in ("repeatable read", "serializable"):
        other.execute(f"set transaction isolation level {level}")
        publish(other, "a", level)
        other.commit()
    assert payloads(session) == ["repeatable read", "serializable"]
