"""Delta tables as targets: what a batch leaves, however often and by whomever it is written."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from trunkline.core.errors import BadRequest, Conflict, Invalid
from trunkline.spark import delta
from trunkline.spark.delta import DeltaTarget, partition_columns
from trunkline.spark.delta_upkeep import STAGING, kept_hours
from trunkline.spark.ledger import Batch
from trunkline.spark.parquet_files import Statistics

ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])
FLAGGED = pa.schema([*ROWS, ("gone", pa.bool_())])


@pytest.fixture
def target(tmp_path: Path) -> DeltaTarget:
    return DeltaTarget(str(tmp_path / "table"), ROWS)


def batch(*rows: tuple[Any, ...], schema: pa.Schema = ROWS) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [
        pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def append(
    target: DeltaTarget,
    number: int,
    *rows: tuple[Any, ...],
    app: str | None = "app",
    truncate: bool = False,
    **noted: Any,
) -> bool:
    files = target.write_files(iter([batch(*rows)]), mode="append")
    return target.commit(files, Batch(app, number, **noted), mode="append", truncate=truncate)


def upsert(target: DeltaTarget, number: int, *rows: tuple[Any, ...], **options: Any) -> bool:
    files = target.write_files(iter([batch(*rows, schema=target.schema)]), mode="upsert")
    return target.commit(
        files, Batch("app", number), **{"mode": "upsert", "keys": ["id"]} | options
    )


def content(target: DeltaTarget) -> list[tuple[Any, ...]]:
    """The rows of the newest version, read without Delta's own reader."""
    table = DeltaTable(target.path)
    found: list[tuple[Any, ...]] = []
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    for action in actions:
        values = {name.removeprefix("partition."): value for name, value in action.items()}
        rows = pq.read_table(f"{target.path}/{action['path']}").to_pylist()
        names = [field.name for field in table.schema().fields]
        found += [tuple(row.get(name, values.get(name)) for name in names) for row in rows]
    return sorted(found, key=repr)


def test_a_batch_is_appended_once(target: DeltaTarget) -> None:
    assert append(target, 0, (1, "a"), (2, None))
    assert not append(target, 0, (1, "a"), (2, None))
    assert append(target, 1, (3, "c"))
    assert content(target) == [(1, "a"), (2, None), (3, "c")]


def test_writes_without_an_app_are_all_written(target: DeltaTarget) -> None:
    for _ in range(2):
        assert append(target, 0, (1, "a"), app=None)
    assert content(target) == [(1, "a"), (1, "a")]


def test_of_many_drivers_with_one_batch_one_writes(target: DeltaTarget) -> None:
    append(target, 0, (0, "first"))
    with ThreadPoolExecutor(6) as threads:
        done = [threads.submit(append, target, 1, (1, "a")) for _ in range(6)]
        assert sorted(one.result(60) for one in done) == [False] * 5 + [True]
    assert content(target) == [(0, "first"), (1, "a")]


def test_of_many_drivers_with_batches_of_their_own_all_write(target: DeltaTarget) -> None:
    with ThreadPoolExecutor(4) as threads:
        done = [
            threads.submit(append, target, 0, (number, "a"), app=number % 2 and f"app {number}")
            for number in range(8)
        ]
        assert all(one.result(60) for one in done)
    assert [row[0] for row in content(target)] == list(range(8))


def test_other_rows_under_the_number_of_a_batch_are_refused(target: DeltaTarget) -> None:
    assert append(target, 0, (1, "a"), digest="a", query="first", run="1")
    assert append(target, 1, (2, "b"), digest="b", query="first", run="1")
    assert not append(target, 0, (1, "a"), digest="a", query="second", run="2")
    assert not append(target, 1, (2, "x"), digest="x", query="first", run="2")
    for number, query, run in ((0, "second", "2"), (0, "first", "2"), (1, "first", "1")):
        with pytest.raises(Conflict, match="written before with other rows: 1 row then, 1 now"):
            append(target, number, (3, "c"), digest="c", query=query, run=run)
    assert content(target) == [(1, "a"), (2, "b")]


def test_a_batch_of_which_the_log_says_nothing_is_refused(target: DeltaTarget) -> None:
    assert append(target, 0, (1, "a"), digest="a")
    write_deltalake(
        target.path,
        pa.table({"id": [2], "name": ["b"]}),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction("app", 5)]),
    )
    with pytest.raises(Conflict, match="its log does not say what batch 3 was"):
        append(target, 3, (3, "c"), digest="c")
    assert not append(target, 0, (1, "a"), digest="a")


def test_an_upsert_replaces_inserts_and_deletes(tmp_path: Path) -> None:
    target = DeltaTarget(str(tmp_path / "table"), FLAGGED)
    options = {"delete_flag": "gone"}
    assert upsert(target, 0, (1, "a", False), (2, "b", None), (3, "c", False), **options)
    assert upsert(target, 1, (1, "x", False), (2, None, True), (4, "d", False), **options)
    assert not upsert(target, 1, (1, "x", False), (2, None, True), (4, "d", False), **options)
    assert content(target) == [(1, "x"), (3, "c"), (4, "d")]
    assert list((tmp_path / "table" / STAGING).iterdir()) == []


def test_an_upsert_looks_only_into_files_that_may_have_its_keys(target: DeltaTarget) -> None:
    for number in range(3):
        append(target, number, *((number * 10 + place, "old") for place in range(10)))
    assert upsert(target, 3, (19, "new"), (15, "new"))
    metrics = DeltaTable(target.path).history(1)[0]["operationMetrics"]
    assert int(metrics["num_target_files_skipped_during_scan"]) == 2
    assert [row for row in content(target) if row[1] == "new"] == [(15, "new"), (19, "new")]
    assert len(content(target)) == 30


def test_the_largest_numbers_are_keys_too(target: DeltaTarget) -> None:
    ends = (-(2**63), 2**63 - 1)
    assert upsert(target, 0, *((end, "a") for end in ends))
    assert upsert(target, 1, *((end, "b") for end in ends))
    assert content(target) == [(end, "b") for end in ends]


def test_a_key_that_comes_twice_is_refused_unless_an_order_tells_which_is_last(
    tmp_path: Path,
) -> None:
    schema = pa.schema([*ROWS, ("v", pa.int32())])
    target = DeltaTarget(str(tmp_path / "table"), schema)
    doubled = ((1, "a", 1), (1, "c", 3), (1, "b", 2), (2, "x", None))
    with pytest.raises(Invalid, match="two rows of one batch have the same key"):
        upsert(target, 0, *doubled)
    with pytest.raises(Invalid, match="and the same v: which is last"):
        upsert(target, 0, (1, "a", 1), (1, "b", 1), order_by=["v"])
    with pytest.raises(Invalid, match=r"a key \(id\) that is null"):
        upsert(target, 0, (None, "a", 1))
    assert upsert(target, 0, *doubled, order_by=["v"])
    assert content(target) == [(1, "c", 3), (2, "x", None)]


@pytest.mark.parametrize("write", [append, upsert])
def test_truncating_leaves_only_the_batch_and_is_one_commit(
    target: DeltaTarget, write: Any
) -> None:
    write(target, 0, (1, "a"), (2, "b"))
    before = DeltaTable(target.path).version()
    assert write(target, 1, (2, "new"), (3, "c"), truncate=True)
    assert content(target) == [(2, "new"), (3, "c")]
    assert DeltaTable(target.path).version() == before + 1
    assert write(target, 2, truncate=True)
    assert content(target) == []


def test_files_carry_their_partition_and_their_statistics(tmp_path: Path) -> None:
    schema = pa.schema([("day", pa.date32()), ("id", pa.int64())])
    target = DeltaTarget(str(tmp_path / "table"), schema, partition_columns=("day",))
    first, second = dt.date(2026, 1, 1), dt.date(2026, 1, 2)
    rows = batch((first, 1), (second, 2), (first, 3), (None, 4), schema=schema)
    files = target.write_files(iter([rows]), mode="append")
    assert target.commit(files, Batch(None, 0), mode="append")
    table = DeltaTable(target.path)
    assert partition_columns(target.path) == ("day",)
    found = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert sorted(
        (row["num_records"], row["min.id"], row["max.id"], str(row["partition.day"]))
        for row in found
    ) == [(1, 2, 2, "2026-01-02"), (1, 4, 4, "None"), (2, 1, 3, "2026-01-01")]
    merged = DeltaTarget(target.path, schema, partition_columns=("day",))
    files = merged.write_files(iter([batch((second, 3), (None, 9), schema=schema)]), mode="upsert")
    assert merged.commit(files, Batch("x", 0), mode="upsert", keys=["id"])
    assert [row[1] for row in sorted(content(merged), key=lambda row: row[1])] == [1, 2, 3, 4, 9]


def test_statistics_bound_what_is_in_a_file() -> None:
    schema = pa.schema(
        [
            ("n", pa.int32()),
            ("t", pa.string()),
            ("at", pa.timestamp("us", "UTC")),
            ("x", pa.float64()),
        ]
    )
    stats = Statistics(schema)
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.UTC)
    stats.add(batch((2, "b" * 40, moment, 1.0), (None, None, None, None), schema=schema))
    stats.add(batch((1, "c", None, float("nan")), schema=schema))
    assert json.loads(stats.json()) == {
        "numRecords": 3,
        "minValues": {"n": 1, "t": "b" * 32, "at": "2026-01-02T03:04:05.000006Z"},
        "maxValues": {"n": 2, "t": "c", "at": "2026-01-02T03:04:05.000006Z"},
        "nullCount": {"n": 1, "t": 1, "at": 2, "x": 1},
    }


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_dates_and_times_of_any_year_are_written_without_bounds(tmp_path: Path, mode: Any) -> None:
    schema = pa.schema([("id", pa.int64()), ("d", pa.date32()), ("at", pa.timestamp("us", "UTC"))])
    target = DeltaTarget(str(tmp_path / "table"), schema)
    for number, (day, moment) in enumerate([(-2_440_000, 3 * 10**17), (0, 0)]):
        arrays = [
            pa.array([number]),
            pa.array([day], pa.int32()).cast(schema.field("d").type),
            pa.array([moment]).cast(schema.field("at").type),
        ]
        rows = pa.RecordBatch.from_arrays(arrays, schema=schema)
        files = target.write_files(iter([rows]), mode=mode)
        assert target.commit(files, Batch("app", number), mode=mode, keys=["id"])
        if number == 0:
            assert json.loads(files[0].stats)["minValues"] == {"id": 0}
    rows = pa.concat_tables(map(pq.read_table, DeltaTable(target.path).file_uris()))
    assert rows.column("d").cast(pa.int32()).to_pylist().count(-2_440_000) == 1
    assert rows.column("at").cast(pa.int64()).to_pylist().count(3 * 10**17) == 1


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_an_empty_text_does_not_become_null_by_partitioning(tmp_path: Path, mode: Any) -> None:
    target = DeltaTarget(str(tmp_path / "table"), ROWS, partition_columns=("name",))
    assert target.write_files(iter([batch((1, "a"), (2, None))]), mode=mode)
    with pytest.raises(Invalid, match=r"column name, by which .* an empty text"):
        target.write_files(iter([batch((1, "a"), (2, ""))]), mode=mode)


def test_columns_may_have_any_name(tmp_path: Path) -> None:
    schema = pa.schema(
        [('the "key"', pa.int64()), ("it's a.b", pa.string()), ("Gone?", pa.bool_())]
    )
    target = DeltaTarget(str(tmp_path / "a table"), schema)
    options = {"keys": ['the "key"'], "delete_flag": "Gone?"}
    assert upsert(target, 0, (1, "a", False), (2, "b", False), (3, "c", False), **options)
    assert upsert(target, 1, (1, "x", False), (2, None, True), **options)
    assert content(target) == [(1, "x"), (3, "c")]


def test_upkeep_keeps_what_left_the_table_as_long_as_its_owner_asked(tmp_path: Path) -> None:
    keeps = {"delta.deletedFileRetentionDuration": "interval 30 days"}
    path = str(tmp_path / "table")
    DeltaTable.create(path, schema=Schema.from_arrow(ROWS), configuration=keeps)
    target = DeltaTarget(path, ROWS)
    append(target, 0, (1, "a"))
    (before,) = DeltaTable(path).file_uris()
    orphan, *_ = target.write_files(iter([batch((9, "left"))]), mode="append")
    old = time.time() - 8 * 24 * 3600
    os.utime(f"{path}/{orphan.path}", (old, old))
    target.upkeep()
    assert Path(before).exists()
    assert Path(path, orphan.path).exists()


@pytest.mark.parametrize(
    ("said", "hours"),
    [("interval 2 weeks", 336), ("INTERVAL 90 minutes", 2), ("interval 1 day", 24), (None, 0)],
)
def test_a_table_says_how_long_it_keeps_files(said: str | None, hours: int) -> None:
    assert kept_hours({"delta.deletedFileRetentionDuration": said}) == hours


def test_a_staged_file_that_is_gone_does_not_undo_the_batch(
    target: DeltaTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = delta.merge

    def merge_and_lose(*given: Any, **options: Any) -> None:
        merge(*given, **options)
        for file in Path(target.path, STAGING).iterdir():
            file.unlink()

    monkeypatch.setattr(delta, "merge", merge_and_lose)
    assert upsert(target, 0, (1, "a"))
    assert content(target) == [(1, "a")]


def test_upkeep_merges_small_files_and_removes_only_old_files_of_no_table(tmp_path: Path) -> None:
    target = DeltaTarget(str(tmp_path / "table"), ROWS, compact_every=4)
    for number in range(4):  # creating the table was version 0: the fourth batch is version 4
        append(target, number, (number, "a"))
    assert len(DeltaTable(target.path).file_uris()) == 1
    assert content(target) == [(number, "a") for number in range(4)]
    orphans = target.write_files(iter([batch((9, "left")), batch((8, "left"))]), mode="append")
    staged = target.write_files(iter([batch((7, "left"))]), mode="upsert")
    target.upkeep()
    for file in (*orphans, *staged):
        assert (tmp_path / "table" / file.path).exists()
    old = time.time() - 8 * 24 * 3600
    for path in (tmp_path / "table").rglob("*.parquet"):
        os.utime(path, (old, old))
    target.upkeep()
    for file in (*orphans, *staged):
        assert not (tmp_path / "table" / file.path).exists()
    assert content(target) == [(number, "a") for number in range(4)]


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    target = DeltaTarget(f"{tmp_path}/file/table", ROWS)
    with pytest.raises(BadRequest, match=r"file/table cannot be written: .*Not a directory"):
        target.write_files(iter([batch((1, "a"))]), mode="append")


def test_rows_that_do_not_fit_the_table_are_refused_with_both_schemas(target: DeltaTarget) -> None:
    append(target, 0, (1, "a"))
    target.check()
    other = DeltaTarget(target.path, pa.schema([("id", pa.int32()), ("extra", pa.string())]))
    with pytest.raises(Invalid) as caught:
        other.check()
    assert "column id, extra does not fit the table. Rows: id " in str(caught.value)
    assert "Table: id " in str(caught.value)
    with pytest.raises(Invalid, match="partitioned by"):
        DeltaTarget(target.path, ROWS, partition_columns=("id",)).check()
