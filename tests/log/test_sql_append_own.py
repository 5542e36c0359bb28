"""The append function of a partition's own: what log_append_batch() does, in less time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import IsolationLevel
from tests.fixtures.asking import Session, ask, call, column, refused
from tests.log.steps import (
    TOPIC,
    append,
    configure,
    create,
    create_anew,
    current_segment,
    fetch,
    maintain,
    problems,
    read,
    restore,
    seal,
)

from trunkline.core import migrate
from trunkline.log import calls
from trunkline.log.batches import Codec, pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Connect
    from tests.fixtures.postgres import TwoSessions

    from trunkline.log.batches import PackedBatch

Numbered = tuple[UUID, int]


def own(session: Session, topic: str = TOPIC, partition: int = 0) -> str:
    """The name of the function of a partition's own."""
    number = ask(session, "select topic_id from trunkline.log_topic where topic = %s", [topic])
    return f"log_append_batch_{number}_{partition}"


def arguments(
    batch: PackedBatch, producer: Numbered | None = None, *, topic: str = TOPIC, partition: int = 0
) -> dict[str, Any]:
    who, number = producer or (None, None)
    asked = calls.append_batch(TOPIC, 0, batch, producer_id=who, producer_seq=number)
    return {**asked.arguments, "topic": topic, "partition": partition}


def append_own(session: Session, *values: bytes, producer: Numbered | None = None) -> Any:
    """Append to the first partition; the first and last offset."""
    return call(session, own(session), **arguments(pack(values), producer))[0][:2]


def statement(name: str) -> str:
    return f"select first_offset from trunkline.{name}(%s, 0, 1, 0, %b, %b)"


def one(value: bytes, topic: str = TOPIC) -> list[Any]:
    batch = pack([value])
    return [topic, batch.value_ends, batch.payload]


def functions(session: Session) -> list[str]:
    return column(session, "select name from trunkline._log_appends() order by name")


def forget(session: Session) -> None:
    """As if an older release had installed the schema."""
    session.execute(
        "delete from trunkline.migration where file = 'functions/_log_append_write.sql'"
    )


@contextmanager
def alone(session: Session) -> Iterator[None]:
    """Take log_append_batch() away for a while: what works now works without it."""
    with session.transaction(force_rollback=True):
        session.execute("alter function trunkline.log_append_batch rename to hidden")
        yield


@pytest.fixture
def topic(session: Session) -> str:
    return create(session)


def test_every_partition_has_one_and_new_ones_get_theirs(session: Session) -> None:
    create(session, partitions=2)
    call(session, "log_alter", topic=TOPIC, partitions=3)
    assert functions(session) == [own(session, partition=number) for number in range(3)]


def test_a_compacted_topic_has_none(session: Session) -> None:
    create(session, compact=True)
    assert functions(session) == []


PLAIN = {
    "bare": {},
    "zstd": {"codec": Codec.ZSTD},
    "keys": {"keys": [b"k", None]},
    "headers": {"headers": [{"a": 1}, None]},
}


@pytest.mark.parametrize("given_", PLAIN.values(), ids=PLAIN)
def test_a_plain_batch_is_stored_as_the_general_function_stores_it(
    session: Session, topic: str, given_: dict[str, Any]
) -> None:
    batch = pack([b"a", b"b"], **given_)
    call(session, "log_append_batch", **arguments(batch))
    with alone(session):
        assert call(session, own(session), **arguments(batch))[0][:2] == (3, 4)
        ours = session.execute(f"select * from {current_segment(session)} order by 1").fetchall()
    names = column(
        session,
        "select attname from pg_attribute where attrelid = 'trunkline.log_batch'::regclass"
        " and attnum > 0 order by attnum",
    )
    differing = {n for n, x, y in zip(names, *ours, strict=True) if x != y}
    assert differing == {"base_offset", "last_offset", "at"}


def test_a_producer_that_goes_on_needs_nothing_else(session: Session, topic: str) -> None:
    producer = uuid4()
    assert append_own(session, b"a", producer=(producer, 1)) == (1, 1)
    with alone(session):
        assert append_own(session, b"b", producer=(producer, 2)) == (2, 2)
        assert append_own(session, b"c", producer=(producer, 9)) == (3, 3)


def test_a_repeat_returns_the_first_answer_whoever_wrote_since(
    session: Session, topic: str
) -> None:
    a, b = uuid4(), uuid4()
    assert append_own(session, b"a", producer=(a, 1)) == (1, 1)
    assert append_own(session, b"a", producer=(a, 1)) == (1, 1)
    assert append_own(session, b"b", producer=(b, 1)) == (2, 2)
    assert append_own(session, b"a", producer=(a, 1)) == (1, 1)
    seal(session)
    assert append_own(session, b"b", producer=(b, 1)) == (2, 2)
    assert append_own(session, b"c", producer=(b, 7)) == (3, 3)
    with refused("TL409"):
        append_own(session, b"late", producer=(b, 5))
    assert read(session) == {1: b"a", 2: b"b", 3: b"c"}


def _short(batch: dict[str, Any]) -> None:
    batch["payload"] = batch["payload"][:-1]


def _half_a_producer(batch: dict[str, Any]) -> None:
    batch["producer_id"] = uuid4()


def _half_a_number(batch: dict[str, Any]) -> None:
    batch["producer_seq"] = 1


def _nothing(batch: dict[str, Any]) -> None:
    batch["n"] = 0


def _endless(batch: dict[str, Any]) -> None:
    batch["n"] = 2**31 - 1


def _no_payload(batch: dict[str, Any]) -> None:
    batch["payload"] = None


def _tombstone(batch: dict[str, Any]) -> None:
    batch["value_valid"] = b"\x00"


@pytest.mark.parametrize(
    "spoil",
    [_short, _half_a_producer, _half_a_number, _nothing, _endless, _no_payload, _tombstone],
    ids=lambda f: f.__name__,
)
def test_what_is_malformed_is_refused_in_the_same_words(
    session: Session, topic: str, spoil: Any
) -> None:
    batch = arguments(pack([b"a"]))
    spoil(batch)
    said = []
    for name in ("log_append_batch", own(session)):
        with refused("TL422") as refusal:
            call(session, name, **batch)
        said.append(refusal.value.diag.message_primary)
    assert said[0] == said[1]
    assert read(session) == {}


def test_a_batch_over_the_limit_is_refused_and_the_limit_counts_at_once(
    session: Session, topic: str
) -> None:
    append_own(session, b"x" * 100)
    configure(session, log__batch_bytes="100")
    with refused("TL413"):
        append_own(session, b"x" * 100)
    configure(session, log__batch_bytes="1000")
    assert append_own(session, b"x" * 100) == (2, 2)


@pytest.mark.parametrize(
    "address",
    [{"partition": 1}, {"topic": "others"}, {"partition": None}, {"topic": None}],
    ids=str,
)
def test_a_batch_for_somebody_else_is_refused(session: Session, address: dict[str, Any]) -> None:
    create(session, partitions=2)
    create(session, "others")
    with refused("TL422"):
        call(session, own(session), **arguments(pack([b"a"]), **address))
    assert read(session) == read(session, partition=1) == read(session, topic="others") == {}


def test_only_a_topic_that_allows_it_releases_early(session: Session, topic: str) -> None:
    call(session, "log_alter", topic=TOPIC, early_release=True)
    session.execute("set synchronous_commit = on")
    with session.transaction():
        call(session, own(session), release_early=True, **arguments(pack([b"a"])))
        assert ask(session, "show synchronous_commit") == "off"
    call(session, own(session), **arguments(pack([b"b"])))
    assert read(session) == {1: b"a", 2: b"b"}


def test_a_session_that_planned_it_goes_on_after_the_segment_was_sealed(
    session: Session, topic: str, connect: Connect
) -> None:
    other = connect()
    for _ in range(8):
        append_own(session, b"a")
    seal(other)
    assert append_own(session, b"b") == (9, 9)
    with alone(session):
        assert append_own(session, b"c") == (10, 10)
    assert problems(session) == []


def test_an_append_that_waited_for_a_roll_goes_to_the_new_segment(
    session: Session, topic: str, two: TwoSessions
) -> None:
    a, b = two.a, two.b
    append_own(session, b"a")
    name = own(session)
    ask(b, statement(name), one(b"b"))
    b.commit()
    seal(a)
    waiting = two.later(b, statement(name), one(b"c"))
    two.blocked_by(a, b)
    a.commit()
    assert waiting.result(10).fetchone() == (3,)
    b.commit()
    assert ask(session, f"select count(*) from {current_segment(session)}") == 1
    assert read(session) == {1: b"a", 2: b"b", 3: b"c"}
    assert problems(session) == []


def test_an_append_waits_for_the_general_function_and_the_other_way_round(
    session: Session, topic: str, two: TwoSessions
) -> None:
    a, b = two.a, two.b
    names = [own(session), "log_append_batch"]
    for number, (first, second) in enumerate([names, names[::-1]]):
        ask(a, statement(first), one(b"a"))
        waiting = two.later(b, statement(second), one(b"b"))
        two.blocked_by(a, b)
        a.commit()
        assert waiting.result(10).fetchone() == (2 * number + 2,)
        b.commit()


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_a_clash_in_an_older_snapshot_is_reported_as_a_serialization_failure(
    session: Session, topic: str, connect: Connect, level: IsolationLevel
) -> None:
    late = connect(autocommit=False)
    late.isolation_level = level
    name = own(late)  # takes the snapshot
    append_own(session, b"a")
    with refused("40001"):
        ask(late, statement(name), one(b"b"))
    late.rollback()
    assert ask(late, statement(name), one(b"b")) == 2


def test_a_new_life_of_the_server_is_noted(session: Session, topic: str) -> None:
    append_own(session, b"a")
    life = restore(session)
    append_own(session, b"b")
    session.execute("update trunkline.incarnation set system_identifier = system_identifier + 1")
    append_own(session, b"c")
    written = [batch.incarnation for batch in fetch(session, 1)]
    assert written[1] == life
    assert len(set(written)) == 3
    session.execute("delete from trunkline.incarnation")  # for those who come after us
    session.execute("select trunkline._incarnation_row()")


def test_it_leaves_with_the_last_table_of_its_topic_and_until_then_says_that_it_is_gone(
    session: Session, topic: str, connect: Connect
) -> None:
    append_own(session, b"a")
    name, table = own(session), current_segment(session)
    backup = connect(autocommit=False)
    backup.execute(f"lock table {table} in access share mode")
    call(session, "log_delete", topic=TOPIC)
    configure(session, maintain__lock_timeout="10 milliseconds")
    maintain(session)
    assert functions(session) == [name]
    with refused("TL404"):
        ask(session, statement(name), one(b"b"))
    create(session)
    assert ask(session, statement(name), one(b"c")) == 1
    assert read(session) == {1: b"c"}
    backup.rollback()
    maintain(session)
    assert functions(session) == [own(session)]


@pytest.fixture
def role(session: Session) -> Iterator[str]:
    name = f"appender_{uuid4().hex}"
    session.execute(f"create role {name}")
    yield name
    session.execute(f"drop owned by {name}")
    session.execute(f"drop role {name}")


@pytest.mark.parametrize("moment", ["roll", "roles_grant", "at once"])
def test_roles_with_append_on_the_topic_may_call_it_and_no_others(
    session: Session, topic: str, role: str, moment: str
) -> None:
    def allowed(who: str) -> bool:
        append(session, b"a")
        if moment == "roll":
            seal(session)
        elif moment == "roles_grant":
            session.execute("select trunkline._grant_log_appends()")
        may = "select has_function_privilege(%s, to_regproc('trunkline.' || %s), 'execute')"
        return bool(ask(session, may, [who, own(session)]))

    on = [f"topic:{topic}", "append", role]
    assert not allowed(role)
    session.execute("select trunkline.grant_on(%s, %s, %s)", on)
    assert allowed(role)
    session.execute("select trunkline.revoke_on(%s, %s, %s)", on)
    assert not allowed(role)
    assert not allowed("public")
    session.execute("select trunkline.object_transfer(%s, %s)", [on[0], role])
    assert allowed(role)


def test_a_roll_gives_way_to_who_grants_functions_and_the_other_way_round(
    session: Session, topic: str, two: TwoSessions
) -> None:
    a, b = two.a, two.b
    append(session, b"a")
    configure(session, maintain__lock_timeout="50 milliseconds")
    a.execute("select trunkline.roles_grant()")
    assert seal(session) is False
    a.rollback()
    assert seal(a) is True
    granting = two.later(b, "select trunkline.roles_grant()")
    two.blocked_by(a, b)
    a.commit()
    granting.result(10)


def test_an_upgrade_waits_for_no_append(session: Session, topic: str, connect: Connect) -> None:
    held = connect(autocommit=False)
    append(held, b"a")
    forget(session)
    migrate.install(session.info.dsn)
    held.commit()
    with alone(session):
        assert append_own(session, b"b") == (2, 2)


def test_its_plan_does_not_rest_on_how_small_the_segment_once_was(
    session: Session, topic: str
) -> None:
    for _ in range(3):
        append_own(session, b"a")
    session.execute(f"vacuum analyze {current_segment(session)}")
    for _ in range(10):
        append_own(session, b"a")
    name = current_segment(session).removeprefix("trunkline.")
    session.execute("select pg_stat_force_next_flush()")
    session.execute("select pg_stat_clear_snapshot()")
    scans = "select seq_scan from pg_stat_user_tables where relname = %s"
    before = ask(session, scans, [name])
    for _ in range(10):
        append_own(session, b"a")
    session.execute("select pg_stat_force_next_flush()")
    session.execute("select pg_stat_clear_snapshot()")
    assert ask(session, scans, [name]) == before


def test_an_upgrade_writes_those_of_the_partitions_that_are_there(
    session: Session, topic: str
) -> None:
    append_own(session, b"a")
    session.execute(f"drop function trunkline.{own(session)}")
    forget(session)
    migrate.install(session.info.dsn)
    with alone(session):
        assert append_own(session, b"b") == (2, 2)


STEPS = st.lists(st.sampled_from(["own", "general", "repeat", "roll", "undone"]), max_size=12)


@settings(max_examples=40, deadline=None)
@given(steps=STEPS, data=st.data())
def test_in_whatever_order_they_are_called_nothing_is_lost_or_doubled(
    module_dsn: str, steps: list[str], data: st.DataObject
) -> None:
    with psycopg.connect(module_dsn, autocommit=True) as session:
        create_anew(session)
        name, producers = own(session), [uuid4(), uuid4()]
        said: dict[Numbered, int] = {}
        sealed: dict[Numbered, int] = {}
        rolls = 0
        expected: dict[int, bytes] = {}
        for step in steps:
            producer = data.draw(st.sampled_from(producers))
            number = max((seq for who, seq in said if who == producer), default=0)
            function = name if step in ("own", "undone") else "log_append_batch"
            match step:
                case "roll":
                    rolls += seal(session)
                case "repeat":  # it is known in the newest two segments
                    if number and rolls - sealed[producer, number] <= 1:
                        again = arguments(pack([b"again"]), (producer, number))
                        assert call(session, name, **again)[0][0] == said[producer, number]
                case "undone":
                    with session.transaction(force_rollback=True):
                        call(session, name, **arguments(pack([b"lost"]), (producer, number + 1)))
                case _:
                    value = b"%d" % len(expected)
                    batch = arguments(pack([value]), (producer, number + 1))
                    offset = call(session, function, **batch)[0][0]
                    said[producer, number + 1] = offset
                    sealed[producer, number + 1] = rolls
                    expected[offset] = value
        assert list(expected) == list(range(1, len(expected) + 1))
        assert read(session) == expected
        assert problems(session) == []
        call(session, "log_delete", topic=TOPIC)
