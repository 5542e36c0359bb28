"""The ledger, staging tables, and moving staged record batches into the log, in terms of SQL."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from tests.fixtures.asking import ask, column, refused

from trunkline.log.batches import pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.postgres import TwoSessions

Session = psycopg.Connection[Any]

COMMIT = "select trunkline.spark_commit('app', %s, %s, %s, %s, %s, %s)"


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with closing(psycopg.connect(dsn, autocommit=True)) as opened:
        yield opened


@pytest.fixture
def role(dsn: str, session: Session) -> Iterator[Callable[..., Session]]:
    """Sessions of new login roles: ``role("trunkline_writer")``."""
    made: list[tuple[str, Session]] = []

    def make(*groups: str) -> Session:
        name = f"user_{uuid4().hex}"
        session.execute(f"create role {name} login")
        for group in groups:
            session.execute(f"grant {group} to {name}")
        own = psycopg.connect(dsn, autocommit=True)
        own.execute(f"set session authorization {name}")
        made.append((name, own))
        return own

    yield make
    for name, own in made:
        own.close()
        session.execute(f"drop owned by {name}")
        session.execute(f"drop role {name}")


def commit(
    session: Session,
    batch: int,
    rows: int = 1,
    target: str = "table a",
    query: str | None = "q",
    digest: str | None = "d",
    run: str | None = "r",
) -> bool:
    done: bool = ask(session, COMMIT, [batch, rows, target, query, digest, run])
    return done


def stage(session: Session, *batches: tuple[str, int, list[bytes]]) -> int:
    number: int = ask(session, "select trunkline.spark_stage_batches()")
    for ordinal, (topic, partition, values) in enumerate(batches):
        packed = pack(values)
        session.execute(
            f"insert into trunkline.spark_staging_{number}"
            " (ordinal, topic, partition, n, codec, value_ends, payload)"
            " values (%s, %s, %s, %s, 0, %b, %b)",
            [ordinal, topic, partition, packed.n, packed.value_ends, packed.payload],
        )
    return number


def append(session: Session, numbers: list[int], messages: list[int]) -> list[tuple[Any, ...]]:
    return session.execute(
        "select * from trunkline.spark_append(%s, %s)", [numbers, messages]
    ).fetchall()


def values(session: Session, topic: str, partition: int = 0) -> list[str]:
    return column(
        session,
        "select convert_from(value, 'UTF8') from trunkline.log_read(%s, %s, 1)",
        [topic, partition],
    )


def staging_tables(session: Session) -> list[str]:
    return column(
        session, "select relname from pg_class where relname ~ '^spark_staging_[0-9]+$' order by 1"
    )


def test_a_batch_is_written_once(session: Session) -> None:
    assert commit(session, 0)
    assert not commit(session, 0)
    assert commit(session, 1)


def test_other_rows_under_the_number_of_a_batch_are_refused(session: Session) -> None:
    assert commit(session, 0, rows=10)
    for other in ({"digest": "other"}, {"rows": 11}, {"query": None, "digest": "other"}):
        with refused("TL409") as caught:
            commit(session, 0, **{"rows": 10, "query": "another checkpoint"} | other)
        assert "written before with other rows: 10 rows then" in str(caught.value)
    assert not commit(session, 0, rows=10, query="another checkpoint")
    assert not commit(session, 0, rows=10, query=None, run=None)


def test_only_another_run_of_a_query_may_repeat_its_newest_batch(session: Session) -> None:
    assert commit(session, 0)
    assert not commit(session, 0, digest="computed from the time of day", run="restarted")
    with refused("TL409"):
        commit(session, 0, digest="a second write of the same run")
    assert commit(session, 1)
    with refused("TL409"):
        commit(session, 0, digest="an older checkpoint was restored", run="restarted")


def test_a_batch_without_a_digest_is_compared_by_its_count(session: Session) -> None:
    assert commit(session, 0, rows=10, digest=None)
    assert not commit(session, 0, rows=10, query="other")
    with refused("TL409"):
        commit(session, 0, rows=11, query="other")


def test_one_app_for_two_targets_is_refused(session: Session) -> None:
    assert commit(session, 0, target="table a")
    with refused("TL409") as caught:
        commit(session, 0, target="table b")
    assert "was written to table a, now it is meant for table b" in str(caught.value)


def test_the_second_of_two_writers_waits_and_then_writes_nothing(
    two_sessions: TwoSessions,
) -> None:
    a, b = two_sessions.a, two_sessions.b
    assert commit(a, 7)
    later = two_sessions.later(b, COMMIT, [7, 1, "table a", "q", "d", "r"])
    two_sessions.blocked_by(a, b)
    a.commit()
    row = later.result(10).fetchone()
    assert row == (False,)


def test_what_the_ledger_forgot_is_refused_and_the_newest_stays(session: Session) -> None:
    for batch in range(5):
        assert commit(session, batch)
    session.execute(
        "update trunkline.spark_ledger set at = at - interval '91 days' where batch < 3"
    )
    session.execute("insert into trunkline.spark_ledger values ('old', 0, 1, '{}', '2000-01-01')")
    while ask(session, "select trunkline.spark_ledger_trim()"):
        pass
    assert column(
        session, "select batch from trunkline.spark_ledger where app = 'app' order by 1"
    ) == [3, 4]
    assert ask(session, "select trunkline.spark_written('old', 0)")
    assert not commit(session, 4)
    with refused("TL409") as caught:
        commit(session, 2)
    assert "older than the ledger remembers, which is 3" in str(caught.value)


def test_batches_may_be_noted_in_any_order(session: Session) -> None:
    assert commit(session, 5)
    assert commit(session, 2)
    assert not commit(session, 5)


def test_staged_batches_are_appended_in_the_order_of_tasks(session: Session) -> None:
    session.execute("select trunkline.log_create('t', 2)")
    first = stage(session, ("t", 0, [b"a", b"b"]), ("t", 1, [b"x"]), ("t", 0, [b"c"]))
    second = stage(session, ("t", 0, [b"d"]))
    assert append(session, [first, second], [4, 1]) == [("t", 0, 1, 4), ("t", 1, 1, 1)]
    assert values(session, "t", 0) == ["a", "b", "c", "d"]
    assert values(session, "t", 1) == ["x"]
    assert staging_tables(session) == []
    assert ask(session, "select count(*) from trunkline.spark_staging") == 0


def test_what_a_task_reported_and_is_not_there_stops_everything(session: Session) -> None:
    session.execute("select trunkline.log_create('t')")
    number = stage(session, ("t", 0, [b"a"]))
    for numbers, messages in (([number], [2]), ([number, 999], [1, 5])):
        with refused("TL410") as caught:
            append(session, numbers, messages)
        assert "nothing was written" in (caught.value.diag.message_hint or "")
    assert values(session, "t") == []


def test_a_batch_for_a_topic_that_is_not_there_stops_everything(session: Session) -> None:
    session.execute("select trunkline.log_create('t')")
    number = stage(session, ("t", 0, [b"a"]), ("u", 0, [b"b"]))
    with refused("TL404"):
        append(session, [number], [2])
    assert values(session, "t") == []


def test_nothing_staged_appends_nothing(session: Session) -> None:
    assert append(session, [], []) == []


def test_a_writer_without_rights_on_the_schema_stages_for_himself_alone(
    session: Session, role: Callable[..., Session]
) -> None:
    session.execute("select trunkline.log_create('t')")
    writer, other = role("trunkline_writer"), role("trunkline_writer")
    with refused("42501"):
        writer.execute("create table trunkline.mine (a int)")
    number = stage(writer, ("t", 0, [b"a"]))
    with refused("42501"):
        other.execute(f"select * from trunkline.spark_staging_{number}")
    with refused("TL410"):
        append(other, [number], [1])
    assert ask(other, "select trunkline.spark_unstage(%s)", [[number]]) == 0
    assert append(writer, [number], [1]) == [("t", 0, 1, 1)]


def test_a_role_that_was_set_is_the_maker(session: Session, role: Callable[..., Session]) -> None:
    writer = role("trunkline_writer")
    writer.execute("set role trunkline_writer")
    number = ask(writer, "select trunkline.spark_stage('{a}', '{int4}')")
    writer.execute(f"insert into trunkline.spark_staging_{number} values (1)")
    assert ask(writer, "select trunkline.spark_unstage(%s)", [[number]]) == 1


def test_rows_are_staged_in_columns_of_any_name_and_of_types_of_postgres(session: Session) -> None:
    number = ask(
        session,
        "select trunkline.spark_stage(%s, %s)",
        [["a", 'b "quoted', "select"], ["int8", "text[]", "timestamp with time zone"]],
    )
    session.execute(f"insert into trunkline.spark_staging_{number} values (1, '{{x}}', now())")
    assert ask(session, "select trunkline.spark_unstage(%s)", [[number, number]]) == 1
    assert staging_tables(session) == []


@pytest.mark.parametrize(
    ("columns", "types"),
    [
        (["a"], []),
        ([], []),
        (["a", "b"], ["int4"]),
        (["a"], ["int4); drop table trunkline.config; --"]),
        (["a"], ["trunkline.log_batch"]),
    ],
)
def test_what_is_not_a_column_is_refused(
    session: Session, columns: list[str], types: list[str]
) -> None:
    with refused("TL422"):
        session.execute("select trunkline.spark_stage(%s::text[], %s::text[])", [columns, types])


def test_staging_that_was_left_behind_is_dropped_unless_somebody_uses_it(
    dsn: str, session: Session
) -> None:
    left = ask(session, "select trunkline.spark_stage('{a}', '{int4}')")
    used = ask(session, "select trunkline.spark_stage('{a}', '{int4}')")
    session.execute("update trunkline.spark_staging set created_at = created_at - interval '25 h'")
    young = ask(session, "select trunkline.spark_stage('{a}', '{int4}')")
    with closing(psycopg.connect(dsn)) as task:
        task.execute(f"insert into trunkline.spark_staging_{used} values (1)")
        session.execute("call trunkline.maintain()")
        assert staging_tables(session) == [f"spark_staging_{used}", f"spark_staging_{young}"]
    session.execute("call trunkline.maintain()")
    assert staging_tables(session) == [f"spark_staging_{young}"]
    assert left < used < young


def test_bytes_of_a_row_are_those_on_disk_over_all_partitions(session: Session) -> None:
    session.execute("create table narrow (id bigint primary key)")
    session.execute("create table wide (id bigint primary key, t text) partition by hash (id)")
    session.execute("create table w0 partition of wide for values with (modulus 2, remainder 0)")
    session.execute("create table w1 partition of wide for values with (modulus 2, remainder 1)")
    session.execute("alter table wide alter t set storage external")
    session.execute("insert into narrow select generate_series(1, 1000)")
    session.execute("insert into wide select i, repeat('x', 10000) from generate_series(1, 1000) i")
    measured = "select trunkline._spark_row_bytes(%s)"
    assert ask(session, measured, ["wide"]) == 0
    session.execute("analyze narrow")
    session.execute("analyze wide")
    assert 30 <= ask(session, measured, ["narrow"]) <= 100
    assert 10_000 <= ask(session, measured, ["wide"]) <= 13_000
    assert ask(session, measured, ["nowhere"]) == 0
