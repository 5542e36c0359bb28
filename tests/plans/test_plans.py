"""Hot functions find their rows by index, and cost the same however much is stored."""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import UUID

import psycopg
import pytest
from tests.fixtures.asking import Session, ask, call
from tests.fixtures.postgres import new_database
from tests.log.steps import TOPIC, create, current_segment, process, seal
from tests.plans.explaining import Plans, analyse, load_explaining

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import AnyServer

PRODUCER = UUID(int=1)
FEW, MANY = 200, 20_000
HOT_TABLE = re.compile(r"^(log_segment|cursor|log_partition|log_topic|owner|cursor_key)(_\d+)?$")
APPEND = "select * from trunkline.log_append('orders', 0, array['x'::bytea, 'y'])"
IDEMPOTENT = (
    "select * from trunkline.log_append('orders', 0, array['x'::bytea], null, null,"
    f" '{PRODUCER}', nextval('numbers'))"
)
FETCH = "select base_offset from trunkline.log_fetch('orders', 0, {start}, 50)"
CLAIM = "select * from trunkline.log_claim('orders', 'readers', 0, 1, '1 minute')"
CATCH_UP = "select * from trunkline.log_claim('orders', 'idle', 0, 1000000)"
IDLE = "select * from trunkline.log_claim('orders', 'idle', 0, 10, '1 minute')"
ACK = "select trunkline.log_ack('orders', 'readers', 0, {claim})"
COMMIT = "select trunkline.log_commit('orders', 'billing', 0, 1, nextval('positions'))"
READY = "select * from trunkline.log_ready('orders', array[0], array[1::bigint])"
AT = "select trunkline.log_offset_at('orders', 0, clock_timestamp())"
JOIN = "select * from trunkline.log_join('orders', 'billing', '{process}')"


@pytest.fixture(scope="module")
def session(server: AnyServer, template: str) -> Iterator[Session]:
    """A topic with few batches, and a group of each mode."""
    with (
        new_database(server, template=template) as name,
        closing(psycopg.connect(server.dsn(name), autocommit=True)) as opened,
    ):
        opened.execute("select trunkline._incarnation_row()")
        opened.execute("create sequence public.numbers")
        opened.execute("create sequence public.positions")
        yield opened


@pytest.fixture
def topic(session: Session) -> Iterator[str]:
    create(session)
    session.execute("alter sequence numbers restart")
    session.execute("alter sequence positions restart")
    who = process(session)
    session.execute(JOIN.format(process=who))
    store(session, 1, FEW)
    yield str(who)
    call(session, "log_delete", topic=TOPIC)
    session.execute("delete from trunkline.owner")  # or the next would go on with its epochs
    session.execute("call trunkline.maintain()")


def store(session: Session, first: int, last: int) -> None:
    """Batches of one message and of two producers, as appends leave them."""
    session.execute(
        f"""insert into {current_segment(session)}
              (base_offset, last_offset, at, producer_id, producer_seq, n, incarnation, format,
               codec, value_ends, payload)
            select g, g, clock_timestamp(), case when mod(g, 2) = 0 then '{UUID(int=2)}'::uuid end,
                   case when mod(g, 2) = 0 then g end, 1, 1, 1, 0, '\\x0000000001000000', 'x'
              from generate_series(%s::bigint, %s) g""",
        [first, last],
    )


class Calls:
    """Hot calls by name; what a call needs beforehand is done when its text is asked for."""

    def __init__(self, session: Session, who: str):
        self.session = session
        self.fixed = {
            "append": APPEND,
            "idempotent append": IDEMPOTENT,
            "fetch at the start": FETCH.format(start=1),
            "claim": CLAIM,
            "commit": COMMIT,
            "ready": READY,
            "offset at a time": AT,
            "join": JOIN.format(process=who),
        }
        self.names = [*self.fixed, "fetch in the middle", "fetch at the end", "ack", "idle poll"]

    def text(self, name: str) -> str:
        if name == "ack":
            return ACK.format(claim=ask(self.session, CLAIM))
        if name == "idle poll":
            self.session.execute(CATCH_UP)
            return IDLE
        if name.startswith("fetch in"):
            return FETCH.format(start=self._last() // 2)
        if name.startswith("fetch at the end"):
            return FETCH.format(start=self._last())
        return self.fixed[name]

    def _last(self) -> int:
        return int(ask(self.session, "select last_offset from trunkline.log_describe('orders')"))

    def cost(self, *names: str) -> dict[str, int]:
        """Pages that each call touches, with all that it calls, when the catalogues are warm."""
        return {name: min(self._pages(name) for _ in range(4)) for name in names or self.names}

    def _pages(self, name: str) -> int:
        query = f"explain (analyze, buffers, format json) {self.text(name)}"
        top = ask(self.session, query, None)[0]["Plan"]
        return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


@pytest.fixture
def calls(session: Session, topic: str) -> Calls:
    return Calls(session, topic)


def dearer(before: dict[str, int], after: dict[str, int], slack: int) -> dict[str, tuple[int, int]]:
    """Calls that touch over a fifth more pages than before, and more than some slack."""
    return {
        name: (before[name], count)
        for name, count in after.items()
        if count > 1.2 * before[name] + slack
    }


# Cost


def test_no_call_gets_dearer_with_the_number_of_stored_batches(
    session: Session, calls: Calls
) -> None:
    before = calls.cost()
    last = ask(session, "select last_offset from trunkline.log_describe(%s)", [TOPIC])
    store(session, last + 1, MANY)
    after = calls.cost()
    bisection = after.pop("offset at a time")
    assert dearer(before, after, slack=4) == {}  # a level more of an index
    assert bisection <= before["offset at a time"] + 7 * 6  # 7 steps more: log2(MANY / FEW)


def test_no_call_gets_dearer_with_the_number_of_segments_and_topics(
    session: Session, calls: Calls
) -> None:
    add_segments(session, 12)  # so that there is always a next segment to look up
    before = calls.cost()
    add_segments(session, 30)
    for number in range(30):
        create(session, f"other-{number}")
        session.execute(APPEND.replace(TOPIC, f"other-{number}"))
    after = calls.cost()
    for number in range(30):
        call(session, "log_delete", topic=f"other-{number}")
    del after["fetch in the middle"]  # reads on into many small segments
    assert dearer(before, after, slack=8) == {}


def add_segments(session: Session, count: int) -> None:
    for _ in range(count):
        seal(session)
        session.execute(APPEND)


# Plans


@pytest.fixture
def large(session: Session, topic: str) -> Iterator[str]:
    """Many batches, and a ring of cursors in which one slot is full."""
    store(session, FEW + 1, MANY)
    session.execute(
        """insert into trunkline.cursor (slot, cursor_id, seq, up_to, at)
           select (select current from trunkline.ring where ring = 'cursor'),
                  (select max(cursor_id) from trunkline.cursor_key) + 1 + g % 7,
                  nextval('trunkline.cursor_seq'), 1, clock_timestamp()
             from generate_series(1, 5000) g"""
    )
    load_explaining(session)
    yield topic
    session.execute("truncate trunkline.cursor")


@pytest.mark.parametrize("analysed", [False, True], ids=["not analysed", "analysed"])
@pytest.mark.usefixtures("large")
def test_hot_functions_look_at_few_rows_and_find_them_by_index(
    session: Session, calls: Calls, analysed: bool
) -> None:
    if analysed:
        analyse(session)
    for name in calls.names:
        query = calls.text(name)
        with Plans(session) as plans:
            session.execute(query)
        scans = plans.scans(HOT_TABLE)
        assert scans, name
        for table, kind, rows in scans:
            assert rows <= 60, (name, table, kind, rows)
            if re.search(r"\d$", table):  # a segment, or a slot of the ring of cursors
                assert kind in ("Index Scan", "Index Only Scan"), (name, table, kind, rows)


# A pinned horizon


def test_a_held_snapshot_leaves_no_dead_rows_and_makes_no_call_dearer(
    session: Session, calls: Calls
) -> None:
    work = ("append", "claim", "ack", "commit")
    with closing(psycopg.connect(session.info.dsn)) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("select count(*) from trunkline.log_topic")
        for _ in range(20):
            run(session)
        dead, before = dead_rows(session), calls.cost(*work)
        for _ in range(750):
            run(session)
        more, after = dead_rows(session), calls.cost(*work)
    assert {table: rows for table, rows in more.items() if rows > dead.get(table, 0)} == {}
    assert [table for table in more if re.search(r"\d$", table)] == []  # hot tables have none
    assert dearer(before, after, slack=2) == {}


def run(session: Session) -> None:
    """An append, a claim, its acknowledgement, a commit."""
    session.execute(APPEND, prepare=True)
    session.execute(ACK.format(claim=ask(session, CLAIM)))
    session.execute(COMMIT, prepare=True)


def dead_rows(session: Session) -> dict[str, int]:
    """Dead rows in tables that every message touches."""
    session.execute("select pg_stat_force_next_flush()")
    rows = session.execute(
        """select relname, n_dead_tup from pg_stat_user_tables
            where relname ~ '^(log_segment_[0-9]|cursor|log_partition|owner)' and n_dead_tup > 0"""
    )
    return dict(rows.fetchall())
