"""Archived and hot offsets are one topic for every client."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.asking import Session, ask, call
from tests.log.archiving import archive, drop_archived
from tests.log.steps import TOPIC, append, create, fill, seal, segments

import trunkline
from trunkline import Invalid, NotFound, PositionTrimmed
from trunkline.log import archived as reading
from trunkline.log.archive import SCHEMA, Digest, rows
from trunkline.log.archived import ArchivedSegment
from trunkline.log.batches import Codec, StoredBatch, pack
from trunkline.log.decoding import decode
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from trunkline import Message, Platform


@pytest.fixture
def dsn(log_dsn: str) -> str:
    return log_dsn


@pytest.fixture
def maker(dsn: str) -> Iterator[Session]:
    with closing(psycopg.connect(dsn, autocommit=True)) as session:
        yield session


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    async with trunkline.connect(dsn) as tl:
        yield tl


@pytest.fixture
def archived(maker: Session, tmp_path: Path) -> Path:
    """Offsets 1 to 30 archived and gone, 31 to 40 sealed, 41 to 45 taking appends."""
    create(maker, archive=True)
    for number in range(4):
        for part in range(5):
            append(
                maker,
                b"%d.%d" % (number, part),
                b"",
                keys=[b"key", None],
                headers=[{"n": number}, None] if part % 2 else None,
            )
        seal(maker)
    fill(maker, 5)
    copies = archive(maker, tmp_path)
    assert [(copy.first_offset, copy.last_offset) for copy in copies] == [
        (1, 10),
        (11, 20),
        (21, 30),
        (31, 40),
    ]
    maker.execute("delete from trunkline.log_archive where first_offset = 31")
    drop_archived(maker)
    assert segments(maker) == [(31, 40), (41, None)]
    return tmp_path / TOPIC


def facts(archived: Path, **other: Any) -> dict[str, Any]:
    return {
        "topic": TOPIC,
        "partition": 0,
        "first": 1,
        "last": 10,
        "location": str(archived),
        "files": [{"path": "0/1.parquet", "messages": 10}],
    } | other


async def all_of(tl: Platform, **options: Any) -> list[Message]:
    return [message async for message in tl.log.read(TOPIC, **options)]


def offsets(messages: list[Message]) -> list[int]:
    return [message.offset for message in messages]


@pytest.mark.usefixtures("archived")
async def test_a_read_from_earliest_goes_through_the_archive_into_the_database(
    tl: Platform,
) -> None:
    messages = await all_of(tl)
    assert offsets(messages) == list(range(1, 46))
    assert [message.value for message in messages[:4]] == [b"0.0", b"", b"0.1", b""]
    assert [message.key for message in messages[:4]] == [b"key", None, b"key", None]
    assert [message.headers for message in messages[:4]] == [None, None, {"n": 0}, None]
    assert messages[0].at <= messages[9].at <= messages[44].at
    assert offsets(await all_of(tl, limit=33)) == list(range(1, 34))
    assert offsets(await all_of(tl, start=7, limit=2)) == [7, 8]
    assert offsets(await all_of(tl, start=30)) == list(range(30, 46))
    assert offsets(await all_of(tl, start="hot")) == list(range(31, 46))
    assert offsets(await all_of(tl, fetch_bytes=1)) == list(range(1, 46))


async def test_what_was_read_from_the_database_reads_the_same_from_the_archive(
    tl: Platform, maker: Session, archived: Path
) -> None:
    before = await all_of(tl, start=31)
    archive(maker, archived.parent)
    drop_archived(maker)
    assert segments(maker) == [(41, None)]
    assert await all_of(tl, start=31) == before


@pytest.mark.usefixtures("archived")
def test_the_blocking_face_reads_the_same(dsn: str) -> None:
    with trunkline.connect_sync(dsn) as tl:
        assert offsets(list(tl.log.read(TOPIC))) == list(range(1, 46))
        with tl.log.consume(TOPIC, "sync", max_messages=7) as consumer:
            found: list[int] = []
            while batch := consumer.poll(0.2):
                found += batch.offsets
                batch.commit()
        assert found == list(range(1, 46))


@pytest.mark.usefixtures("archived")
@pytest.mark.parametrize("mode", ["assigned", "shared"])
@pytest.mark.parametrize("delivery", ["at-least-once", "at-most-once"])
async def test_a_group_reads_archived_and_hot_as_one_topic(
    tl: Platform, mode: str, delivery: str
) -> None:
    found: list[int] = []
    async with tl.log.consume(TOPIC, "g", mode=mode, delivery=delivery, max_messages=4) as consumer:
        while batch := await consumer.poll(0.3):
            found += batch.offsets
            await batch.commit()
    assert found == list(range(1, 46))
    assert [lag.lag for lag in await tl.log.lag(TOPIC)] == [0]


@pytest.mark.usefixtures("archived")
@pytest.mark.parametrize("mode", ["assigned", "shared"])
async def test_what_is_released_in_the_archive_comes_again(tl: Platform, mode: str) -> None:
    async with tl.log.consume(TOPIC, "g", mode=mode, max_messages=6) as consumer:
        first = await consumer.poll(1)
        assert first is not None
        await first.release()
        again = await consumer.poll(1)
        assert again is not None
        assert again.offsets == first.offsets == [1, 2, 3, 4, 5, 6]


@pytest.mark.usefixtures("archived")
async def test_what_fails_for_good_in_the_archive_is_a_dead_letter_as_any_other(
    tl: Platform,
) -> None:
    options = {"mode": "shared", "max_messages": 1, "max_attempts": 1}
    async with tl.log.consume(TOPIC, "g", start=3, **options) as consumer:
        first = await consumer.poll(1)
        assert first is not None
        await first.release(reason="boom")
        following = await consumer.poll(1)
        assert following is not None
        assert (first.offsets, following.offsets) == ([3], [4])
    (letter,) = await tl.log.dead_list(TOPIC)
    shown = await tl.log.dead_show(TOPIC, letter.letter)
    assert (shown.offset, shown.key, shown.value, shown.reason) == (3, b"key", b"0.1", "boom")
    assert shown.headers is not None
    assert shown.headers["n"] == 0


async def test_a_segment_that_leaves_while_it_is_read_leaves_no_gap_and_no_repeat(
    tl: Platform, maker: Session, archived: Path
) -> None:
    found: list[int] = []
    async for message in tl.log.read(TOPIC, start=25, fetch_bytes=1):
        found.append(message.offset)
        if message.offset == 33:
            archive(maker, archived.parent)
            drop_archived(maker)
            assert segments(maker) == [(41, None)]
    assert found == list(range(25, 46))


async def test_a_member_that_was_behind_goes_on_in_the_archive(
    tl: Platform, maker: Session, archived: Path
) -> None:
    async with tl.log.consume(TOPIC, "g", start=31, max_messages=3, fetch_bytes=1) as consumer:
        batch = await consumer.poll(1)
        assert batch is not None
        assert batch.offsets[0] == 31
        await batch.commit()
        archive(maker, archived.parent)
        drop_archived(maker)
        found = batch.offsets
        while batch := await consumer.poll(0.3):
            found += batch.offsets
            await batch.commit()
    assert found == list(range(31, 46))


async def test_a_poll_that_is_cancelled_leaves_the_files_to_the_thread_that_reads_them(
    tl: Platform, archived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    used: list[ArchivedSegment] = []
    fetch = ArchivedSegment.fetch

    def slow_at_first(segment: ArchivedSegment, *asked: int) -> list[StoredBatch]:
        used.append(segment)
        if len(used) == 1:
            begun.set()
            go_on.wait(10)
        return fetch(segment, *asked)

    monkeypatch.setattr(ArchivedSegment, "fetch", slow_at_first)
    async with tl.log.consume(TOPIC, "g") as consumer:
        polling = asyncio.create_task(consumer.poll())
        await eventually(begun.is_set)
        polling.cancel()
        await asyncio.wait({polling})
        batch = await consumer.poll(10)
        go_on.set()
    assert batch is not None
    assert batch.first_offset == 1
    assert used[0] not in used[1:]


async def test_a_time_in_the_archive_is_exact(tl: Platform, maker: Session, archived: Path) -> None:
    messages = await all_of(tl)
    chosen = messages[14]
    first = min(message.offset for message in messages if message.at >= chosen.at)
    assert offsets(await all_of(tl, start=chosen.at))[0] == first
    assert 10 < first <= 15
    late = datetime.now(UTC) + timedelta(days=1)
    assert await all_of(tl, start=late) == []


async def test_a_file_that_is_missing_or_damaged_is_named(tl: Platform, archived: Path) -> None:
    file = archived / "0" / "11.parquet"
    whole = file.read_bytes()
    for rubbish in (b"", b"rubbish", whole[: len(whole) // 2], whole[:40] + b"X" * 40 + whole[80:]):
        file.write_bytes(rubbish)
        with pytest.raises(Invalid, match=r"11\.parquet"):
            await all_of(tl)
    file.unlink()
    with pytest.raises(NotFound, match=r"11\.parquet"):
        await all_of(tl)
    assert offsets(await all_of(tl, limit=10)) == list(range(1, 11))


def test_a_file_with_other_offsets_or_columns_is_refused(archived: Path) -> None:
    with pytest.raises(Invalid, match="offsets from 1 on"):
        ArchivedSegment(facts(archived, files=[{"path": "0/11.parquet", "messages": 10}])).fetch(
            1, 5, 100
        )
    with pytest.raises(Invalid, match="partition 3"):
        ArchivedSegment(facts(archived, partition=3)).fetch(1, 5, 100)
    table = pq.read_table(archived / "0" / "1.parquet")
    pq.write_table(table.drop_columns(["value"]), archived / "0" / "1.parquet")
    with pytest.raises(Invalid):
        ArchivedSegment(facts(archived)).fetch(1, 5, 100)
    pq.write_table(table.slice(0, 6), archived / "0" / "1.parquet")
    with pytest.raises(Invalid, match="ends at 6"):
        ArchivedSegment(facts(archived)).fetch(7, 5, 100)


def test_locations_are_paths_or_uris(archived: Path) -> None:
    for location in (str(archived), f"file://{archived}", f"file://{archived}/"):
        (batch, *_) = ArchivedSegment(facts(archived, location=location)).fetch(3, 1, 100)
        assert batch.base_offset == 3
    for location in ("nowhere://x/y", "s3a:"):
        with pytest.raises(Invalid):
            ArchivedSegment(facts(archived, location=location)).fetch(3, 1, 100)


def test_a_position_of_another_history_is_refused_with_the_cut(archived: Path) -> None:
    segment = ArchivedSegment(facts(archived, before=7))
    segment.check_history(5, None)
    segment.check_history(5, 1)
    segment.check_history(1, 7)
    with pytest.raises(PositionTrimmed) as caught:
        segment.check_history(1, 1)
    assert caught.value.details["incarnation"] == 7
    assert caught.value.details["cut"] == 0
    with pytest.raises(PositionTrimmed) as caught:
        segment.check_history(5, 2)
    assert caught.value.details["cut"] == 4
    ArchivedSegment(facts(archived)).check_history(1, 99)  # nobody knows what was before


@pytest.mark.usefixtures("archived")
async def test_without_pyarrow_it_says_what_to_install(
    tl: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "is_installed", lambda _name: False)
    with pytest.raises(PositionTrimmed, match=r"trunkline\[arrow\]"):
        await all_of(tl)
    async with tl.log.consume(TOPIC, "g", mode="shared") as consumer:
        with pytest.raises(PositionTrimmed, match="archived"):
            await consumer.poll(0.1)


@pytest.mark.usefixtures("archived")
async def test_what_is_beyond_the_retention_and_not_archived_is_refused_as_before(
    tl: Platform, maker: Session
) -> None:
    maker.execute("delete from trunkline.log_archive where first_offset < 20")
    with pytest.raises(PositionTrimmed) as caught:
        await all_of(tl, start=3)
    assert caught.value.details["first"] == 31
    assert offsets(await all_of(tl)) == list(range(21, 46))


@pytest.mark.usefixtures("archived")
async def test_a_topic_made_anew_is_not_read_from_the_files_of_the_old_one(
    tl: Platform, maker: Session
) -> None:
    async with tl.log.consume(TOPIC, "g", max_messages=2) as consumer:
        assert (await consumer.poll(1)) is not None
        call(maker, "log_delete", topic=TOPIC)
        create(maker)
        fill(maker, 3)
        tl.log._topics.forget(TOPIC)  # it would take some seconds
        batch = await consumer.poll(2)
        assert batch is not None
        assert batch.values[0] == b"0"


# The checksum


def stored(values: list[bytes | None], keys: list[bytes | None], first: int) -> StoredBatch:
    packed = pack(values, keys=keys, headers=[{"a": 1}] + [None] * (len(values) - 1))
    return StoredBatch(
        format=1,
        codec=int(Codec.NONE),
        incarnation=1,
        base_offset=first,
        last_offset=first + len(values) - 1,
        n=len(values),
        at=datetime(2030, 1, 1, tzinfo=UTC),
        value_ends=packed.value_ends,
        payload=packed.payload,
        value_valid=packed.value_valid,
        key_ends=packed.key_ends,
        keys=packed.keys,
        key_valid=packed.key_valid,
        deltas=None,
        event_ids=None,
        headers=packed.headers,
        skip=0,
        take=len(values),
    )


CELLS = st.lists(
    st.tuples(st.none() | st.binary(max_size=5), st.none() | st.binary(max_size=3)),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)  # the first use of Arrow takes its time
@given(CELLS, st.integers(0, 12))
def test_the_checksum_does_not_depend_on_how_rows_are_cut(
    cells: list[tuple[bytes | None, bytes | None]], cut: int
) -> None:
    batch = rows(decode(stored([v for v, _ in cells], [k for _, k in cells], 5)), 0)
    assert batch.schema == SCHEMA
    whole, parts = Digest(), Digest()
    whole.update(batch)
    for part in (batch.slice(0, cut), batch.slice(cut)):
        parts.update(part)
    assert parts.checksum() == whole.checksum()


@settings(deadline=None)  # the first use of Arrow takes its time
@given(CELLS, CELLS)
def test_other_messages_have_another_checksum(
    one: list[tuple[bytes | None, bytes | None]], other: list[tuple[bytes | None, bytes | None]]
) -> None:
    checksums = []
    for cells in (one, other):
        digest = Digest()
        digest.update(rows(decode(stored([v for v, _ in cells], [k for _, k in cells], 5)), 0))
        checksums.append(digest.checksum())
    assert (checksums[0] == checksums[1]) == (one == other)


def test_a_file_says_its_checksum_and_anybody_can_compute_it(
    archived: Path, maker: Session
) -> None:
    file = archived / "0" / "1.parquet"
    digest = Digest()
    for batch in pq.ParquetFile(file).iter_batches(3):
        digest.update(batch)
    noted = ask(maker, "select checksum from trunkline.log_archive where first_offset = 1")
    said = pq.read_metadata(file).metadata[b"trunkline.checksum"].decode()
    assert digest.checksum() == noted == said
    assert digest.messages == 10


def test_the_files_are_plain_parquet_sorted_by_offset(archived: Path) -> None:
    table = pq.read_table(archived / "0" / "11.parquet")
    assert table.schema.remove_metadata() == SCHEMA
    assert table.column("offset").to_pylist() == list(range(11, 21))
    assert json.loads(table.column("headers").to_pylist()[2]) == {"n": 1}
    group = pq.read_metadata(archived / "0" / "11.parquet").row_group(0)
    assert group.column(1).compression == "ZSTD"
    assert (group.column(3).statistics.min, group.column(3).statistics.max) == (11, 20)
