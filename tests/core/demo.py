"""A sequence to test with: a ring of rows that are numbered after commit, and a reader of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from tests.fixtures.asking import ask

if TYPE_CHECKING:
    from collections.abc import Iterator

Session = psycopg.Connection[Any]

CREATE = """
create sequence trunkline.demo_seq;
create table trunkline.demo (
  slot int not null default trunkline._ring_current('demo'),
  xid_space int not null default trunkline._xid_space(),
  xid xid8 not null default pg_current_xact_id(),
  seq bigint not null default nextval('trunkline.demo_seq'),
  payload text not null,
  constraint demo_pkey primary key (xid, seq, slot)
) partition by list (slot);
create table trunkline.demo_reader (needed bigint not null);
create function trunkline._demo_needed() returns bigint language sql stable as
  $$ select min(r.needed) from trunkline.demo_reader r $$;
select trunkline._sequence_create('demo', keep_from => '_demo_needed', slots => 4);
"""


RESET = """
delete from trunkline.demo;
delete from trunkline.demo_reader;
delete from trunkline.tick;
delete from trunkline.cursor;
delete from trunkline.cursor_key;
delete from trunkline.incarnation;
delete from trunkline.ring_slot where ring = 'demo' and slot > 3;
update trunkline.ring_slot
   set left_at = null, free_since = null, snapshot = null, xid_space = null, up_to = null;
update trunkline.ring
   set current = 0, rotated_at = clock_timestamp(), held_since = null, held_by = null;
update trunkline.config set value = default_value;
update trunkline.sequence set tag = 'null' where sequence = 'demo';
select trunkline._sequence_prepare('demo');
alter sequence trunkline.demo_seq restart;
"""


@contextmanager
def opened(dsn: str) -> Iterator[Session]:
    """A session in a database that has the sequence, without rows, of which any leave at once."""
    with psycopg.connect(dsn, autocommit=True) as session:
        there = ask(session, "select to_regclass('trunkline.demo') is not null")
        session.execute(RESET if there else CREATE)
        session.execute("select trunkline.config_set('maintain.settle', '0')")
        yield session


def write(session: Session, *payloads: str) -> None:
    session.cursor().executemany(
        "insert into trunkline.demo (payload) values (%s)", [[payload] for payload in payloads]
    )


def write_many(session: Session, rows: int, prefix: str = "") -> None:
    """Many rows in one statement; slot and space are looked up once, not for every row."""
    session.execute(
        "insert into trunkline.demo (slot, xid_space, payload)"
        " select here.slot, here.space, %s || number from generate_series(1, %s) number, (select"
        " trunkline._ring_current('demo') as slot, trunkline._xid_space() as space offset 0) here"
        " order by number",
        [prefix, rows],
    )


def tick(session: Session, chunk: int = 10000) -> int:
    taken: int = ask(session, "select trunkline._tick_take('demo', %s)", [chunk])
    return taken


def numbered(session: Session, start: int = 1, most: int = 10_000_000) -> list[tuple[int, str]]:
    """Positions and payloads in the order of positions; NULL is shown for a row that is gone."""
    return session.execute(
        "select r.up_to, d.payload from trunkline._sequence_rows('demo', %s, %s) r"
        " left join trunkline.demo d on d.xid = r.xid and d.seq = r.seq order by r.up_to",
        [start, most],
    ).fetchall()


def payloads(session: Session) -> list[str]:
    """Payloads in the order of positions, which are 1, 2, 3 ..."""
    rows = numbered(session)
    assert [position for position, _ in rows] == list(range(1, len(rows) + 1))
    return [payload for _, payload in rows]
