"""The functions that the document of pg-tube prints, called as printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import ask, column, refused

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from tests.fixtures.asking import Connect, Session
    from tests.fixtures.roles import Role

TABLE = """
create schema sh0002;
create table sh0002.contacts (
  id bigint primary key, name text, active bool not null,
  created_at timestamptz not null default now());
insert into sh0002.contacts
select n, 'contact ' || n, n <= 30, now() - n * interval '1 minute' from generate_series(1, 40) n;
"""


@pytest.fixture
def tubes(session: Session) -> Session:
    """A session as the document has it: its functions need no schema before them."""
    session.execute(TABLE)
    session.execute("set search_path = tube, public")
    return session


def pods(session: Session, tube: str = "es") -> list[tuple[Any, ...]]:
    """Read as the document's workers do."""
    return session.execute(
        "SELECT op, shard, ids, payload FROM tube_pods(%s) ORDER BY op='B', seq", [tube]
    ).fetchall()


def step(session: Session) -> str:
    """Call the next step of the backfill; its state."""
    query = "select {} from trunkline.tube_backfill_status('es')"
    session.execute(query.format("trunkline.tube_backfill_step(backfill)"))
    return str(ask(session, query.format("status")))


def end_backfill(session: Session) -> None:
    """Step until no transaction of the server that was open at the start is open."""

    def done() -> None:
        assert step(session) == "done"

    wait_until(done)


def test_tubes_are_added_listed_and_removed(tubes: Session) -> None:
    tubes.execute("SELECT tube_ensure_exists('es', 3, 'active')")
    tubes.execute("SELECT tube_ensure_exists('es', 3, 'active')")
    tubes.execute("SELECT tube_table_ensure_attached('es', 'sh0002.contacts', 7)")
    listed = "SELECT tube, predicate, partitions, tbl::text, shard FROM tube_list()"
    assert tubes.execute(listed).fetchall() == [("es", "active", 3, "sh0002.contacts", 7)]
    tubes.execute("INSERT INTO sh0002.contacts VALUES (100, 'x', true)")
    for _ in range(2):
        tubes.execute("SELECT tube_ensure_absent('es')")
    assert tubes.execute(listed).fetchall() == []
    tubes.execute("INSERT INTO sh0002.contacts VALUES (101, 'x', true)")


def test_without_a_predicate_the_tube_has_none(tubes: Session) -> None:
    tubes.execute("SELECT tube_ensure_exists('es', 1, 'active')")
    tubes.execute("SELECT tube_ensure_exists('es', 1)")
    assert ask(tubes, "SELECT predicate FROM tube_list()") is None


def test_the_shard_is_inferred_from_the_name(tubes: Session) -> None:
    tubes.execute("SELECT tube_ensure_exists('es')")
    tubes.execute("SELECT tube_table_ensure_attached('es', 'sh0002.contacts')")
    assert ask(tubes, "SELECT shard FROM tube_list('sh0002.contacts')") == 2


def test_writes_of_matching_rows_add_touch_pods(tubes: Session) -> None:
    tubes.execute("SELECT tube_ensure_exists('es', 1, 'active')")
    tubes.execute("SELECT tube_table_ensure_attached('es', 'sh0002.contacts', 2)")
    tubes.execute("INSERT INTO sh0002.contacts VALUES (50, 'in', true), (51, 'out', false)")
    tubes.execute("UPDATE sh0002.contacts SET name = 'new' WHERE id IN (1, 2, 40)")
    tubes.execute("DELETE FROM sh0002.contacts WHERE id = 3")
    found = [(op, shard, sorted(ids), payload) for op, shard, ids, payload in pods(tubes)]
    assert found == [
        ("I", 2, ["50"], None),
        ("U", 2, ["1", "2"], None),
        ("D", 2, ["3"], None),
    ]
    tubes.execute("SELECT tube_table_ensure_detached('es', 'sh0002.contacts')")
    tubes.execute("DELETE FROM sh0002.contacts WHERE id = 4")
    assert len(pods(tubes)) == 3


def test_the_three_backfill_steps_emit_every_matching_row(tubes: Session) -> None:
    tubes.execute("SELECT tube_ensure_exists('es', 1, 'active')")
    tubes.execute("SELECT tube_table_ensure_attached('es', 'sh0002.contacts', 2)")
    step1 = ask(tubes, "SELECT tube_backfill_step1()")
    tubes.execute("SELECT tube_backfill_step2()")
    tubes.execute(
        "SELECT tube_backfill_step3(%s, 'es', 'sh0002.contacts', 'created_at', 2)", [step1]
    )
    tubes.execute("UPDATE sh0002.contacts SET name = 'new' WHERE id = 1")
    control, live, rows = pods(tubes)
    assert (control[2], control[3]["type"]) == ([], "backfill_start")
    assert live == ("U", 2, ["1"], None), "live changes come before the backfill"
    assert rows[:2] == ("B", 2)
    assert rows[2] == [str(n) for n in range(30, 0, -1)], "in the order of created_at"

    end_backfill(tubes)
    assert pods(tubes)[-1][3]["type"] == "backfill_end"


def test_a_backfill_waits_for_transactions_that_were_open_at_its_start(
    tubes: Session, connect: Connect
) -> None:
    """The document waits in step 2; ours ends the backfill after them."""
    tubes.execute("SELECT tube_ensure_exists('es')")
    tubes.execute("SELECT tube_table_ensure_attached('es', 'sh0002.contacts', 2)")
    other = connect(autocommit=False)
    other.execute("INSERT INTO sh0002.contacts VALUES (60, 'late', true)")
    step1 = ask(tubes, "SELECT tube_backfill_step1()")
    tubes.execute("SELECT tube_backfill_step2()")
    tubes.execute("SELECT tube_backfill_step3(%s, 'es', 'sh0002.contacts', 'id')", [step1])
    assert step(tubes) == "finishing"
    other.commit()
    end_backfill(tubes)
    assert pods(tubes)[0][:3] == ("I", 2, ["60"])


def test_another_shard_than_that_of_the_table_is_refused(tubes: Session) -> None:
    tubes.execute("SELECT tube_ensure_exists('es')")
    tubes.execute("SELECT tube_table_ensure_attached('es', 'sh0002.contacts', 2)")
    with refused("TL422"):
        tubes.execute("SELECT tube_backfill_step3('1', 'es', 'sh0002.contacts', 'id', 3)")


def test_results_of_a_query_are_touched_in_several_tubes(tubes: Session) -> None:
    for tube in ("es", "cache"):
        tubes.execute("SELECT tube_ensure_exists(%s)", [tube])
    tubes.execute(
        "SELECT tube_pods_insert('es,cache', 'SELECT id, row_number() OVER (ORDER BY id)"
        " FROM sh0002.contacts WHERE id <= 3 ORDER BY id', 5)"
    )
    for tube in ("es", "cache"):
        assert pods(tubes, tube) == [("B", 5, ["1", "2", "3"], None)]


def test_a_session_that_is_named_backfill_writes_with_low_priority(
    tubes: Session, connect: Connect
) -> None:
    tubes.execute("SELECT tube_ensure_exists('es')")
    tubes.execute("SELECT tube_table_ensure_attached('es', 'sh0002.contacts', 2)")
    backfill = connect(application_name="my-backfill-1")
    backfill.execute("UPDATE sh0002.contacts SET name = 'a' WHERE id = 1")
    tubes.execute("UPDATE sh0002.contacts SET name = 'b' WHERE id = 2")
    pods(tubes)
    stats = tubes.execute(
        "SELECT tube, partition, shards, inc_count, backfill_count FROM tube_stats()"
    )
    assert stats.fetchall() == [("es", 0, 1, 1, 1)]


def test_rights_are_those_of_our_functions(role: Role) -> None:
    for groups in ((), ("trunkline_reader",)):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            role(*groups).execute("SELECT tube.tube_ensure_exists('es')")
    writer = role("trunkline_writer")
    writer.execute("SELECT tube.tube_ensure_exists('es')")
    assert column(writer, "SELECT tube FROM tube.tube_list()") == ["es"]
