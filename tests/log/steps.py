"""Short forms for tests that speak to the log in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

import psycopg
from psycopg.types.json import Jsonb
from tests.fixtures.asking import ask, call, called

from trunkline.log.batches import StoredBatch

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from tests.fixtures.asking import Session

TOPIC = "orders"


class Claim(NamedTuple):
    """What `log_claim` answers."""

    claim: int
    first_offset: int
    last_offset: int
    attempts: int
    expires: datetime | None
    reason: str | None

    @property
    def offsets(self) -> list[int]:
        return list(range(self.first_offset, self.last_offset + 1))


class Share(NamedTuple):
    """What `log_join` answers for one partition."""

    partition: int
    epoch: int
    up_to: int
    surplus: bool


def create(session: Session, topic: str = TOPIC, **settings: Any) -> str:
    call(session, "log_create", topic=topic, **settings)
    return topic


def create_anew(session: Session, topic: str = TOPIC, **settings: Any) -> str:
    """Create a topic in place of one that may be there from an example before."""
    if session.execute("select from trunkline.log_topic where topic = %s", [topic]).rowcount:
        call(session, "log_delete", topic=topic)
    return create(session, topic, **settings)


def append(
    session: Session,
    *values: bytes | None,
    topic: str = TOPIC,
    partition: int | None = 0,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[dict[str, Any] | None] | None = None,
    producer: tuple[UUID, int] = (None, None),  # type: ignore[assignment]
) -> tuple[int, int]:
    """Append to one partition; the first and last offset."""
    rows = call(
        session,
        "log_append",
        topic=topic,
        partition=partition,
        payloads=list(values),
        keys=None if keys is None else list(keys),
        headers=None
        if headers is None
        else [header if header is None else Jsonb(header) for header in headers],
        producer_id=producer[0],
        producer_seq=producer[1],
    )
    assert len(rows) == 1
    return rows[0][1], rows[0][2]


def fill(session: Session, count: int, *, topic: str = TOPIC, partition: int = 0) -> None:
    """Append `count` messages in one batch."""
    if count:
        append(session, *(b"%d" % n for n in range(count)), topic=topic, partition=partition)


def read(
    session: Session, *, topic: str = TOPIC, partition: int = 0, start: int = 1, most: int = 100_000
) -> dict[int, bytes | None]:
    """Values by offset."""
    rows = call(
        session,
        "log_read",
        topic=topic,
        partition=partition,
        from_offset=start,
        max_messages=most,
        max_bytes=1 << 30,
    )
    return {row[0]: row[3] for row in rows}


def fetch(
    session: Session, start: int, *, topic: str = TOPIC, partition: int = 0, **more: Any
) -> list[StoredBatch]:
    """The record batches from an offset on."""
    asked = {"topic": topic, "partition": partition, "from_offset": start, **more}
    return [stored(row) for row in called(session, "log_fetch", **asked).fetchall()]


def stored(row: dict[str, Any]) -> StoredBatch:
    return StoredBatch(incarnation=row.pop("written_by"), **row)


def claim(
    session: Session,
    most: int = 100,
    deadline: timedelta | None = None,
    *,
    topic: str = TOPIC,
    group: str = "readers",
    partition: int = 0,
    **more: Any,
) -> Claim | None:
    rows = call(
        session,
        "log_claim",
        topic=topic,
        group_name=group,
        partition=partition,
        max_messages=most,
        deadline=deadline,
        **more,
    )
    assert len(rows) <= 1
    return Claim(*rows[0]) if rows else None


def claim_at(
    session: Session,
    now: datetime,
    most: int = 100,
    deadline: timedelta | None = None,
    *,
    max_attempts: int = 5,
    process: UUID | None = None,
    group: str = "readers",
) -> Claim | None:
    """Claim with the clock given; the group must be there."""
    values = [TOPIC, group, 0, most, deadline, max_attempts, process, now]
    query = "select * from trunkline._log_claim(%s, %s, %s, %s, %s, %s, %s, %s)"
    row = session.execute(query, values).fetchone()
    return Claim(*row) if row else None


def settle(
    session: Session, verb: str, claimed: Claim, *, group: str = "readers", **more: Any
) -> Any:
    """Acknowledge, release or extend a claim."""
    return call(
        session,
        f"log_{verb}",
        topic=TOPIC,
        group_name=group,
        partition=0,
        claim=claimed.claim,
        **more,
    )[0][0]


def process(session: Session) -> UUID:
    """A process with a living lease."""
    made = uuid4()
    session.execute("select trunkline.lease_renew(%s, 'test')", [made])
    return made


def die(session: Session, *processes: UUID) -> None:
    """Stage what a killed process leaves: a lease that ran out."""
    session.execute(
        "update trunkline.lease set expires = clock_timestamp() where process = any (%s)",
        [list(processes)],
    )


def join(
    session: Session, who: UUID, member: str = "", *, topic: str = TOPIC, group: str = "billing"
) -> list[Share]:
    rows = call(session, "log_join", topic=topic, group_name=group, process=who, member=member)
    return [Share(*row) for row in rows]


def commit(
    session: Session,
    share: Share,
    up_to: int,
    *,
    topic: str = TOPIC,
    group: str = "billing",
    **given: int,
) -> None:
    call(
        session,
        "log_commit",
        topic=topic,
        group_name=group,
        partition=share.partition,
        epoch=share.epoch,
        up_to=up_to,
        **given,
    )


def restore(session: Session) -> int:
    """Begin a new life of the server; its incarnation."""
    number: int = ask(
        session,
        """insert into trunkline.incarnation
           select i.incarnation + 7, i.incarnation, i.system_identifier, i.timeline, i.database,
                  i.schema, i.xid_space
             from trunkline.incarnation i order by i.incarnation desc limit 1
           returning incarnation""",
    )
    return number


def fail_over(dsn: str, *, after: int, payload: bytes | None = None) -> None:
    """Go on with a standby that had so many messages; what it lacked others have appended anew."""
    with psycopg.connect(dsn, autocommit=True) as session:
        life = restore(session)
        session.execute(
            f"update {current_segment(session)} set incarnation = %s,"
            " payload = coalesce(%s, payload) where base_offset > %s",
            [life, payload, after],
        )


def seal(session: Session, topic: str = TOPIC, partition: int = 0) -> bool:
    """Seal the current segment, as maintenance does when it is large or old."""
    rolled: bool = ask(
        session,
        "select trunkline._log_roll(topic_id, %s) from trunkline.log_topic where topic = %s",
        [partition, topic],
    )
    return rolled


def maintain(session: Session) -> None:
    session.execute("call trunkline.maintain()")
    failed = session.execute("select duty, error from trunkline.duty where error is not null")
    assert failed.fetchall() == []


def segments(session: Session, topic: str = TOPIC, partition: int = 0) -> list[tuple[int, int]]:
    """First and last offset of every segment; the last is None while it takes appends."""
    return session.execute(
        """select s.first_offset, s.last_offset
             from trunkline.log_topic t join trunkline.log_segment s using (topic_id)
            where t.topic = %s and s.partition = %s order by s.first_offset""",
        [topic, partition],
    ).fetchall()


def current_segment(session: Session, topic: str = TOPIC, partition: int = 0) -> str:
    """The table that takes appends."""
    name: str = ask(
        session,
        """select 'trunkline.log_segment_' || p.segment_id
             from trunkline.log_topic t join trunkline.log_partition p using (topic_id)
            where t.topic = %s and p.partition = %s""",
        [topic, partition],
    )
    return name


def problems(session: Session, topic: str = TOPIC) -> list[str]:
    """What log_verify complains of."""
    return [row[4] for row in call(session, "log_verify", topic=topic) if row[4] is not None]


def configure(session: Session, **settings: str) -> None:
    """Change settings; ``log__max_claims`` is ``log.max_claims``."""
    for name, value in settings.items():
        session.execute("select trunkline.config_set(%s, %s)", [name.replace("__", "."), value])
