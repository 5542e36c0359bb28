"""Short forms for tests that speak to tubes in SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from tests.fixtures.asking import ask, call, column, forget_prepared

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from datetime import datetime

    from tests.fixtures.asking import Session

TUBE = "feed"
ORDERS = "create table orders (id bigint primary key, status text, region int, total int)"


class Entry(NamedTuple):
    """What `tube_read` answers."""

    up_to: int
    seq: int
    attachment: int | None
    relation: str | None
    shard: int
    op: str
    keys: list[str]
    payload: Any
    control: str | None
    at: datetime


class Share(NamedTuple):
    """What `tube_join` answers for one lane."""

    lane: int
    lanes: int
    epoch: int
    live_up_to: int
    backfill_up_to: int
    surplus: bool


SWEEP = """
do $$
declare
  name text;
begin
  for name in select nspname from pg_namespace
               where nspname !~ '^pg_' and nspname not in ('trunkline', 'information_schema') loop
    execute format('drop schema %I cascade', name);
  end loop;
  for name in select fdwname from pg_foreign_data_wrapper loop
    execute format('drop foreign data wrapper %I cascade', name);
  end loop;
  perform trunkline.tube_drop(t.tube, force => true) from trunkline.tube t;
  update trunkline.config set value = default_value where value <> default_value;
  truncate trunkline.lease, trunkline.owner, trunkline.party;
end $$;
alter table trunkline.tube_entry drop constraint if exists broken;
create schema public;
grant usage on schema public to public;
"""


def swept(session: Session) -> Session:
    """Remove what an earlier test left."""
    session.execute("set lock_timeout = '5s'")
    forget_prepared(session)
    session.execute(SWEEP)
    session.execute("reset lock_timeout")
    tick(session)
    return session


def ensure(session: Session, tube: str = TUBE, **settings: Any) -> str:
    call(session, "tube_ensure", tube=tube, **settings)
    return tube


def attach(session: Session, relation: str = "orders", tube: str = TUBE, **settings: Any) -> int:
    """The number of the attachment."""
    rows = call(session, "tube_attach", tube=tube, relation=relation, **settings)
    return int(rows[0][0])


def touch(session: Session, *keys: str | None, tube: str = TUBE, **settings: Any) -> int:
    rows = call(
        session,
        "tube_touch",
        tube=tube,
        keys=list(keys),
        **{"relation": None, "shard": 0, **settings},
    )
    return int(rows[0][0])


def tick(session: Session) -> int:
    """Number what was committed; how many entries."""
    return int(ask(session, "select trunkline.tube_tick()"))


def head(session: Session) -> int:
    return int(ask(session, "select trunkline.tube_head()"))


def read(
    session: Session,
    tube: str = TUBE,
    *,
    lane: int = 0,
    priority: int = 0,
    from_position: int = 1,
    to_position: int | None = None,
    max_entries: int = 10_000,
) -> list[Entry]:
    rows = call(
        session,
        "tube_read",
        tube=tube,
        lane=lane,
        priority=priority,
        from_position=from_position,
        to_position=head(session) if to_position is None else to_position,
        max_entries=max_entries,
    )
    return [Entry(*row) for row in rows]


@dataclass
class Reader:
    """Reads what is new in all lanes of a tube, in the order of positions."""

    session: Session
    tube: str = TUBE
    seen: int = field(init=False)

    def __post_init__(self) -> None:
        tick(self.session)
        self.seen = head(self.session)

    def new(self) -> list[Entry]:
        tick(self.session)
        first, self.seen = self.seen + 1, head(self.session)
        lanes = column(
            self.session, "select lane from trunkline.tube_stats(%s) order by 1", [self.tube]
        )
        found = [
            entry
            for lane in lanes
            for priority in (0, 1)
            for entry in read(
                self.session,
                self.tube,
                lane=lane,
                priority=priority,
                from_position=first,
                to_position=self.seen,
            )
        ]
        return sorted(found)

    def touches(self) -> list[tuple[str, list[str]]]:
        """Operation and keys of new entries; keys of one entry are sorted."""
        return [(entry.op, sorted(entry.keys)) for entry in self.new() if not entry.control]

    def keys(self) -> list[str]:
        """The keys of new entries, sorted."""
        return sorted(key for entry in self.new() for key in entry.keys)

    def places(self) -> list[tuple[int, str]]:
        """Shard and key of everything that is new, sorted."""
        return sorted((entry.shard, key) for entry in self.new() for key in entry.keys)

    def controls(self) -> list[tuple[str, int]]:
        """New control entries with their shard."""
        return [(entry.control, entry.shard) for entry in self.new() if entry.control]


def member(session: Session) -> UUID:
    """A process that lives."""
    process = uuid4()
    call(session, "lease_renew", process=process)
    return process


def join(session: Session, process: UUID, tube: str = TUBE) -> list[Share]:
    return [Share(*row) for row in call(session, "tube_join", tube=tube, process=process)]


def ack(session: Session, share: Share, tube: str = TUBE, **positions: int | None) -> None:
    call(session, "tube_ack", tube=tube, lane=share.lane, epoch=share.epoch, **positions)


def schedule(session: Session, tube: str = TUBE, **settings: Any) -> int:
    """Schedule the backfill of one table; its number."""
    rows = call(session, "tube_backfill_schedule", tube=tube, **settings)
    assert len(rows) == 1
    return int(rows[0][0])


def step(session: Session, backfill: int) -> bool:
    return bool(ask(session, "select trunkline.tube_backfill_step(%s)", [backfill]))


def finish(session: Session, backfill: int) -> None:
    """Step until it is done; vacuum, too, may hold a transaction open for a moment."""
    while step(session, backfill):
        pass

    def done() -> bool:
        step(session, backfill)
        return bool(status(session, backfill)["status"] == "done")

    wait_until(done)


def status(session: Session, backfill: int) -> dict[str, Any]:
    cursor = session.execute(
        "select * from trunkline.tube_backfill_status() where backfill = %s", [backfill]
    )
    row = cursor.fetchone()
    assert row is not None
    assert cursor.description is not None
    return dict(zip([part.name for part in cursor.description], row, strict=True))


def gaps(session: Session, tube: str = TUBE) -> int:
    return int(
        ask(session, "select sum(gaps)::int from trunkline.tube_list() where tube = %s", [tube])
    )


def documents(
    session: Session, attachment: int, *keys: str, shards: list[int] | None = None
) -> dict[str, Any]:
    rows = call(session, "tube_enrich", attachment=attachment, keys=list(keys), shards=shards)
    return dict(rows)
