"""Reading in SQL: any offset, any time, and only positions of this history."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import IsolationLevel
from tests.fixtures.asking import Session, ask, call, column, refused, writing_nothing
from tests.fixtures.postgres import new_database
from tests.log.steps import (
    TOPIC,
    append,
    commit,
    create,
    create_anew,
    current_segment,
    fetch,
    fill,
    join,
    maintain,
    problems,
    process,
    read,
    restore,
    seal,
)

from trunkline.core.binaries import find_binaries
from trunkline.log.batches import Codec, pack
from trunkline.log.decoding import decode

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from tests.fixtures.asking import Connect
    from tests.fixtures.postgres import AnyServer, TwoSessions

    from trunkline.log.batches import StoredBatch

steady = settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def offsets(batches: list[StoredBatch]) -> list[int]:
    return [offset for batch in batches for offset in decode(batch).offsets]


# What is there


def test_an_empty_topic_and_the_tip_have_no_rows(session: Session) -> None:
    create(session)
    assert fetch(session, 1) == []
    fill(session, 3)
    assert fetch(session, 4) == []
    assert read(session, start=4) == {}


@steady
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    seals=st.sets(st.integers(0, 7)),
    data=st.data(),
)
def test_every_offset_and_every_limit_shows_exactly_what_was_asked_for(
    session: Session, sizes: list[int], seals: set[int], data: st.DataObject
) -> None:
    create_anew(session)
    for number, size in enumerate(sizes):
        fill(session, size)
        if number in seals:
            seal(session)
    total = sum(sizes)
    start = data.draw(st.integers(1, total + 1))
    most = data.draw(st.integers(1, total + 2))
    expected = list(range(start, total + 1))[:most]
    assert offsets(fetch(session, start, max_messages=most)) == expected
    assert list(read(session, start=start, most=most)) == expected


def test_a_fetch_stops_after_the_batch_that_reaches_max_bytes(session: Session) -> None:
    create(session)
    for size in (10, 10, 10):
        append(session, b"x" * size)
    assert offsets(fetch(session, 1, max_bytes=1)) == [1]
    assert offsets(fetch(session, 1, max_bytes=11)) == [1, 2]
    assert offsets(fetch(session, 1, max_bytes=20)) == [1, 2]
    assert offsets(fetch(session, 1)) == [1, 2, 3]


def test_keys_headers_and_tombstones_are_read_as_they_were_appended(session: Session) -> None:
    create(session, compact=True)
    append(session, b"1", None, b"", keys=[b"a", b"b", b""], headers=[{"n": 1}, None, {}])
    rows = call(session, "log_read", topic=TOPIC)
    assert [(row[0], row[2], row[3], row[4]) for row in rows] == [
        (1, b"a", b"1", {"n": 1}),
        (2, b"b", None, None),
        (3, b"", b"", {}),
    ]


def test_compressed_batches_are_fetched_whole_and_refused_in_sql(session: Session) -> None:
    create(session)
    fill(session, 2)
    packed = pack([b"squeezed"] * 3, codec=Codec.ZSTD)
    call(
        session,
        "log_append_batch",
        topic=TOPIC,
        partition=0,
        n=3,
        codec=1,
        value_ends=packed.value_ends,
        payload=packed.payload,
    )
    assert list(read(session, most=2)) == [1, 2]
    with refused("TL415") as caught:
        read(session)
    assert "offsets 3 to 5" in str(caught.value)
    assert [value for batch in fetch(session, 4) for value in decode(batch).values] == [
        b"squeezed"
    ] * 2


def test_reading_writes_nothing(session: Session) -> None:
    create(session)
    fill(session, 3)
    with writing_nothing(session):
        read(session)
        fetch(session, 4)
        call(session, "log_ready", topic=TOPIC, partitions=[0], up_to=[3])
        call(session, "log_offset_at", topic=TOPIC, partition=0, at_time=NOON)
        call(session, "log_verify", topic=TOPIC)
        call(session, "log_list")
        call(session, "log_groups")


def test_an_open_append_is_not_seen_and_holds_up_no_reader(
    session: Session, connect: Connect
) -> None:
    create(session)
    fill(session, 2)
    other = connect(autocommit=False)
    append(other, b"open")
    assert list(read(session)) == [1, 2]
    other.commit()
    assert list(read(session)) == [1, 2, 3]


def test_ready_names_the_partitions_with_more(session: Session) -> None:
    create(session, partitions=3)
    fill(session, 2, partition=1)
    fill(session, 5, partition=2)
    ready = "select * from trunkline.log_ready(%s, %s, %s)"
    assert sorted(column(session, ready, [TOPIC, [0, 1, 2], [0, 1, 4]])) == [1, 2]
    assert column(session, ready, [TOPIC, [0, 1, 2], [0, 2, 5]]) == []


def test_lists_tell_what_a_topic_holds(session: Session) -> None:
    create(session, partitions=2, retention=timedelta(days=3))
    fill(session, 4, partition=1)
    seal(session, partition=1)
    ((topic, partitions, messages, size, retention, *_),) = call(session, "log_list")
    assert (topic, partitions, messages, retention) == (TOPIC, 2, 4, timedelta(days=3))
    described = call(session, "log_describe", topic=TOPIC)
    assert [row[:4] for row in described] == [(0, 1, 0, 1), (1, 1, 4, 2)]
    assert sum(row[4] for row in described) == size
    assert call(session, "log_verify", topic=TOPIC) == [(0, 1, 0, 0, None), (1, 1, 4, 4, None)]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("delete from {sealed} where base_offset = 2", "offset 2 expected, found 3"),
        ("delete from {sealed} where base_offset = 4", "ends at 3, expected 4"),
        ("delete from {sealed} where base_offset = 1", "offset 1 expected, found 2"),
        ("delete from {current} where base_offset = 5", "offset 5 expected, found 6"),
        ("update {current} set n = 7 where base_offset = 6", "batch 6 to 6 holds 7 messages"),
        ("update {sealed} set last_offset = 3 where base_offset = 2", "offset 4 expected, found 3"),
        ("delete from trunkline.log_segment where last_offset = 4", "starts at 5, expected 1"),
    ],
)
def test_verify_names_every_kind_of_damage(session: Session, damage: str, complaint: str) -> None:
    create(session)
    for _ in range(4):
        fill(session, 1)
    sealed = current_segment(session)
    seal(session)
    for _ in range(2):
        fill(session, 1)
    assert problems(session) == []
    session.execute(damage.format(sealed=sealed, current=current_segment(session)))
    assert any(complaint in problem for problem in problems(session))


# Times


def stamp(session: Session, times: dict[int, datetime]) -> None:
    """Give the batches other times, as if they had been appended then."""
    for name in column(session, "select segment_id from trunkline.log_segment where topic_id > 0"):
        for offset, at in times.items():
            session.execute(
                f"update trunkline.log_segment_{name} set at = %s where base_offset = %s",
                [at, offset],
            )
        session.execute(
            f"""update trunkline.log_segment s set last_at = (
                  select b.at from trunkline.log_segment_{name} b order by base_offset desc limit 1)
                 where segment_id = %s and last_offset is not null""",
            [name],
        )


@steady
@given(
    steps=st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=12),
    seals=st.sets(st.integers(0, 11), max_size=3),
    trim=st.integers(0, 20),
)
@example(steps=[(1, 0)], seals=set(), trim=0)
def test_the_offset_at_a_time_is_the_first_that_was_appended_then_or_later(
    session: Session, steps: list[tuple[int, int]], seals: set[int], trim: int
) -> None:
    create_anew(session)
    times: dict[int, datetime] = {}
    seconds, offset = 0, 1
    for number, (size, pause) in enumerate(steps):
        fill(session, size)
        seconds += pause
        times |= dict.fromkeys(range(offset, offset + size), NOON + timedelta(seconds=seconds))
        offset += size
        if number in seals:
            seal(session)
    stamp(session, times)
    floor = min(trim, offset - 1) + 1
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=floor)
    for second in range(-1, seconds + 2):
        for at in (NOON + timedelta(seconds=second), NOON + timedelta(seconds=second + 0.5)):
            later = [o for o, written in times.items() if written >= at and o >= floor]
            expected = min(later, default=offset)
            found = call(session, "log_offset_at", topic=TOPIC, partition=0, at_time=at)
            assert found == [(expected,)], (at, times)


def test_a_time_before_the_beginning_is_the_first_offset_and_after_the_end_the_next(
    session: Session,
) -> None:
    create(session)
    at = "select trunkline.log_offset_at(%s, 0, %s)"
    assert ask(session, at, [TOPIC, NOON]) == 1
    fill(session, 3)
    assert ask(session, at, [TOPIC, "-infinity"]) == 1
    assert ask(session, at, [TOPIC, "infinity"]) == 4


# Histories


@pytest.fixture
def older_life(session: Session) -> int:
    """The present incarnation, as the one before a restore: the next append begins a new one."""
    present: int = ask(session, "select max(incarnation) from trunkline.incarnation")
    create(session)
    return present


def cut_of(error: psycopg.Error) -> int:
    cut: int = json.loads(error.diag.message_detail or "{}")["cut"]
    return cut


@pytest.mark.parametrize("sealed", [(), (3,), (5,), (3, 5, 8)])
def test_a_position_of_another_incarnation_is_refused_with_the_cut(
    session: Session, older_life: int, sealed: tuple[int, ...]
) -> None:
    newer = 0
    for offset in range(1, 11):
        if offset == 6:
            newer = restore(session)
        append(session, b"x")
        if offset in sealed:
            seal(session)
    for start in range(1, 12):
        if start <= 6:  # what lies before it was written by the older life, and is all here
            fetch(session, start, incarnation=older_life)
        else:
            with refused("TL410") as caught:
                fetch(session, start, incarnation=older_life)
            assert cut_of(caught.value) == 5
        if start > 6 or start == 1:
            fetch(session, start, incarnation=newer)
        else:
            with refused("TL410") as caught:
                fetch(session, start, incarnation=newer)
            assert cut_of(caught.value) == start - 1


def test_a_position_whose_messages_were_compacted_away_is_accepted(
    session: Session, older_life: int
) -> None:
    call(session, "log_delete", topic=TOPIC)
    create(session, compact=True)
    append(session, b"1", keys=[b"a"])
    newer = restore(session)
    append(session, b"2", keys=[b"b"])
    append(session, b"3", keys=[b"b"])
    call(session, "log_compact", topic=TOPIC)
    assert offsets(fetch(session, 3, incarnation=newer)) == [3]
    assert fetch(session, 4, incarnation=newer) == []


def test_a_position_from_the_future_is_refused_with_the_last_offset(session: Session) -> None:
    create(session)
    fill(session, 3)
    with refused("TL410") as caught:
        fetch(session, 5)
    assert cut_of(caught.value) == 3


@pytest.fixture
def dump(bin_dir: Path | None) -> Callable[[str, str], None]:
    """Copy one database into another with pg_dump and psql."""
    try:
        directory = find_binaries(bin_dir).directory
    except Exception:
        directory = Path(shutil.which("pg_dump") or "pg_dump").parent
    if os.environ.get("TRUNKLINE_TEST_DSN") and shutil.which("pg_dump") is None:
        pytest.skip("no pg_dump for the server under test")

    def copy(source: str, target: str) -> None:
        text = subprocess.run(
            [directory / "pg_dump", source], check=True, capture_output=True
        ).stdout
        subprocess.run(
            [directory / "psql", "-Xq", "-v", "ON_ERROR_STOP=1", target],
            input=text,
            check=True,
            capture_output=True,
        )

    return copy


def test_a_restore_is_a_new_history_that_keeps_the_old_positions_it_holds(
    session: Session, log_dsn: str, server: AnyServer, dump: Callable[[str, str], None]
) -> None:
    create(session)
    fill(session, 5)
    share = join(session, process(session))[0]
    commit(session, share, 2)
    life = fetch(session, 5)[0].incarnation
    with new_database(server) as name:
        dump(log_dsn, server.dsn(name))
        fill(session, 3)  # the original goes on: 6 to 8 are not in the copy
        with psycopg.connect(server.dsn(name), autocommit=True) as restored:
            assert fetch(restored, 6, incarnation=life) == []
            with refused("TL410") as caught:
                fetch(restored, 9, incarnation=life)
            assert cut_of(caught.value) == 5

            assert append(restored, b"other") == (6, 6)
            fill(restored, 4)
            (written,) = {batch.incarnation for batch in fetch(restored, 6)}
            assert written > life
            assert offsets(fetch(restored, 6, incarnation=life)) == [6, 7, 8, 9, 10]
            with refused("TL410") as caught:
                fetch(restored, 9, incarnation=life)
            assert cut_of(caught.value) == 5
            assert column(restored, "select up_to from trunkline.log_groups()") == [2]
            assert problems(restored) == []


# Segments that leave while somebody reads


@pytest.fixture
def late(session: Session, connect: Connect) -> Session:
    """A transaction whose snapshot knows a segment that has been dropped since."""
    create(session)
    fill(session, 3)
    seal(session)
    fill(session, 3)
    late = connect(autocommit=False)
    late.isolation_level = IsolationLevel.REPEATABLE_READ
    ask(late, "select count(*) from trunkline.log_topic")
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=4)
    maintain(session)
    return late


@pytest.mark.parametrize("look", ["fetch", "verify", "offset_at"])
def test_a_snapshot_older_than_a_drop_is_told_to_begin_anew(late: Session, look: str) -> None:
    with refused("40001"):
        match look:
            case "fetch":
                fetch(late, 1)
            case "verify":
                problems(late)
            case "offset_at":
                call(late, "log_offset_at", topic=TOPIC, partition=0, at_time="-infinity")
    late.rollback()
    assert offsets(fetch(late, 4)) == [4, 5, 6]


PAUSED = """with gate as materialized (select 0 as zero from (select pg_advisory_xact_lock(1)) x)
            select {columns} from gate cross join lateral trunkline.{call}"""


def paused(two: TwoSessions, call: str, columns: str = "f.*") -> Future[psycopg.Cursor[Any]]:
    """Send a statement that stops right after its snapshot was taken, before it calls."""
    two.a.execute("select pg_advisory_lock(1)")
    two.a.commit()
    query = PAUSED.format(columns=columns, call=f"{call} f")
    statement = two.later(two.b, query)
    two.blocked_by(two.a, two.b)
    return statement


def go_on(two: TwoSessions) -> None:
    two.a.execute("select pg_advisory_unlock(1)")


def drop_everything(session: Session) -> None:
    """Let every segment leave that was there."""
    seal(session)
    call(session, "log_trim", topic=TOPIC, partition=0, before_offset=len(read(session)) + 1)
    maintain(session)


LOOKS = {
    "log_list()": ("f.messages", 3),
    "log_groups()": ("f.lag", 3),
    "log_describe('orders')": ("f.last_offset", 3),
    "log_verify('orders')": ("f.problem", None),
    "log_ready('orders', array[gate.zero], array[2::bigint])": ("f", 0),
    "log_ready('orders', array[gate.zero], array[3::bigint])": ("count(*)", 0),
    "log_claimable('orders', 'readers')": ("f", 0),
    "log_offset_at('orders', gate.zero, '-infinity')": ("f", 4),
    "log_offset_at('orders', gate.zero, 'infinity')": ("f", 4),
    "log_seek('orders', 'billing', 'latest', gate.zero)": ("f.from_offset", 4),
    "log_fetch('orders', gate.zero, 4)": ("count(*)", 0),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_statement_older_than_a_drop_looks_again(
    session: Session, two: TwoSessions, look: str
) -> None:
    create(session)
    fill(session, 3)
    join(session, process(session))
    columns, expected = LOOKS[look]
    statement = paused(two, look, columns)
    drop_everything(session)
    go_on(two)
    assert statement.result(10).fetchone()[0] == expected


@pytest.mark.parametrize("look", ["log_fetch('orders', gate.zero, 1)", "log_read('orders')"])
def test_a_statement_older_than_a_drop_is_told_the_first_offset(
    session: Session, two: TwoSessions, look: str
) -> None:
    create(session)
    fill(session, 3)
    statement = paused(two, look.replace("read('orders')", "read('orders', gate.zero)"))
    drop_everything(session)
    go_on(two)
    with refused("TL410"):
        statement.result(10)


def test_a_statement_older_than_a_compaction_reads_the_copy(
    session: Session, two: TwoSessions
) -> None:
    create(session, compact=True)
    append(session, b"1", b"2", keys=[b"a", b"a"])
    statement = paused(two, "log_read('orders', gate.zero)", "f.log_offset")
    call(session, "log_compact", topic=TOPIC)
    maintain(session)
    go_on(two)
    assert statement.result(10).fetchall() == [(2,)]


def test_a_floor_that_rises_during_a_fetch_is_told_and_leaves_no_gap(
    session: Session, two: TwoSessions
) -> None:
    create(session)
    fill(session, 3)
    seal(session)
    fill(session, 3)
    two.a.execute("lock table trunkline.log_segment")  # stops it between its two looks
    fetching = two.later(two.b, "select base_offset from trunkline.log_fetch('orders', 0, 1)")
    two.blocked_by(two.a, two.b)
    call(two.a, "log_trim", topic=TOPIC, partition=0, before_offset=4)
    two.a.commit()
    with refused("TL410"):  # nothing at all would be taken for the end
        fetching.result(10)
