"""A tube kept in step by Spark: into a table of Postgres and into a Delta table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
from deltalake import DeltaTable

import trunkline
from trunkline.core.errors import Conflict, Invalid, LeaseLost, NotFound
from trunkline.spark import audit, backfill, sync
from trunkline.spark.jobs.job import silent
from trunkline.spark.jobs.sync import Sync, most_keys
from trunkline.spark.tube_lanes import Lanes
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from trunkline.platform import SyncPlatform

SETUP = """
create schema app;
create table app.orders (
  id bigint primary key, customer text not null, amount numeric(12, 2),
  placed timestamptz, tags text[]);
create table app.copy (like app.orders including all);
"""
FILL = """
insert into app.orders select i, 'customer ' || i % 7, i * 1.5, now(), array['a', 'b']
from generate_series({first}, {last}) i
"""


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(SETUP)
    with trunkline.connect_sync(dsn) as platform:
        platform.tube.ensure("lake", lanes=2)
        platform.tube.attach("lake", "app.orders")
        yield platform


def run(dsn: str, statement: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else None


def table(dsn: str, name: str) -> list[Any]:
    return run(dsn, f"select * from {name} order by id")


def test_a_table_follows_inserts_updates_deletes_and_truncate(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    assert tl
    run(dsn, FILL.format(first=1, last=3000))
    run(dsn, "update app.orders set amount = 0 where id % 5 = 0")
    run(dsn, "delete from app.orders where id % 10 = 0")
    done = sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert done.keys >= 3000
    assert table(dsn, "app.copy") == table(dsn, "app.orders")
    run(dsn, "update app.orders set id = id + 100000, customer = 'moved' where id < 50")
    run(dsn, "delete from app.orders where id between 100 and 200")
    sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert table(dsn, "app.copy") == table(dsn, "app.orders")
    run(dsn, "truncate app.orders")
    run(dsn, FILL.format(first=7, last=9))
    done = sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert done.collected == 1
    assert table(dsn, "app.copy") == table(dsn, "app.orders")
    assert sync(spark, "lake", "table:app.copy", dsn=dsn, once=True).rounds == 0
    assert not any(row.live_entries for row in tl.tube.stats("lake"))


@pytest.mark.parametrize(
    ("widths", "keys"), [([0], 419_430), ([100], 1_000_000), ([100, 10_000], 26_843)]
)
def test_a_round_takes_fewer_keys_where_rows_are_wide(widths: list[int], keys: int) -> None:
    assert most_keys(widths) == keys


def test_wide_rows_come_in_several_rounds(
    spark: SparkSession, dsn: str, tl: SyncPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tl
    run(dsn, FILL.format(first=1, last=100))
    touch = "select trunkline.tube_touch('lake', 'app.orders', array['7'])"
    run(dsn, f"{touch} from generate_series(1, 150)")  # a round takes at least a hundred entries
    monkeypatch.setattr("trunkline.spark.jobs.sync._ROUND_BYTES", 1)
    done = sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert done.rounds > 1
    assert table(dsn, "app.copy") == table(dsn, "app.orders")


def test_a_backfill_brings_rows_from_before_and_removes_what_is_gone(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    run(dsn, FILL.format(first=1, last=2000))
    run(dsn, "insert into app.copy values (999999, 'nobody', 1, now(), null)")
    run(dsn, "set session_replication_role = replica; delete from app.orders where id = 5")
    done = backfill(spark, "lake", "table:app.copy", relation="app.orders", dsn=dsn)
    assert done.collected >= 1
    assert table(dsn, "app.copy") == table(dsn, "app.orders")
    assert all(row.status == "done" for row in tl.tube.backfill_status("lake"))


def test_a_backfill_beside_a_running_sync_leaves_the_work_to_it_and_waits(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    assert tl
    run(dsn, "set session_replication_role = replica;" + FILL.format(first=1, last=500))
    stop = Event()
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(sync, spark, "lake", "table:app.copy", dsn=dsn, stop=stop)
        try:
            wait_until(lambda: any(row.process for row in tl.tube.stats("lake")), 60)
            assert backfill(spark, "lake", "table:app.copy", dsn=dsn).rounds == 0
            assert table(dsn, "app.copy") == table(dsn, "app.orders")
        finally:
            stop.set()
        assert running.result(60).rounds >= 1


def test_a_backfill_takes_over_from_a_sync_that_died(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    run(dsn, "set session_replication_role = replica;" + FILL.format(first=1, last=500))
    dead = Lanes(dsn, "lake", name="spark sync")  # it never does anything
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(backfill, spark, "lake", "table:app.copy", dsn=dsn)
        wait_until(lambda: sum(row.backfill_entries for row in tl.tube.stats("lake")) > 0, 60)
        assert not running.done()
        dead.leave()
        assert running.result(100).keys >= 500
    assert table(dsn, "app.copy") == table(dsn, "app.orders")


def test_rows_that_do_not_meet_the_condition_are_not_downstream(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    tl.tube.attach("lake", "app.orders", condition="r.amount > 100")
    run(dsn, FILL.format(first=1, last=200))
    sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert run(dsn, "select count(*), min(amount) > 100 from app.copy") == [(134, True)]
    run(dsn, "update app.orders set amount = 1 where id = 150")
    sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert run(dsn, "select count(*) from app.copy where id = 150") == [(0,)]


def test_a_function_is_given_the_rows_of_each_round(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    assert tl
    run(dsn, FILL.format(first=1, last=10))
    seen: list[Any] = []

    def keep(rows: DataFrame, _batch: int) -> None:
        seen.extend(rows.collect())

    sync(spark, "lake", keep, dsn=dsn, once=True)
    assert sorted(row.id for row in seen) == list(range(1, 11))
    assert not any(row["_deleted"] for row in seen)


def test_after_truncate_a_function_is_said_to_keep_what_it_has(
    spark: SparkSession, dsn: str, tl: SyncPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    assert tl
    run(dsn, "truncate app.orders")
    with caplog.at_level("WARNING", "trunkline"):
        sync(spark, "lake", lambda *_: None, dsn=dsn, once=True)
    assert "rows that are gone stay" in caplog.text


def test_a_round_that_fails_is_done_again_and_acknowledges_nothing_before(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    run(dsn, FILL.format(first=1, last=10))

    def broken(_rows: DataFrame, _batch: int) -> None:
        raise RuntimeError("the lake is frozen")

    with pytest.raises(RuntimeError, match="frozen"):
        sync(spark, "lake", broken, dsn=dsn, once=True)
    assert sum(row.live_entries for row in tl.tube.stats("lake")) == 1
    sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert table(dsn, "app.copy") == table(dsn, "app.orders")


def test_two_syncs_of_one_tube_are_refused_with_the_name_of_the_first(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    assert tl
    run(dsn, FILL.format(first=1, last=10))

    def second(_rows: DataFrame, _batch: int) -> None:
        said = r"worked on by spark sync lake by \S+ \(lease for \d+ s more\)"
        with pytest.raises(Conflict, match=said):
            sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)

    assert sync(spark, "lake", second, dsn=dsn, once=True).rounds == 1


@pytest.mark.parametrize(
    ("tube", "to", "error", "said"),
    [
        ("lake", "nowhere", Invalid, "delta:PATH or table:NAME"),
        ("lake", "csv:/tmp/x", Invalid, "delta:PATH or table:NAME"),
        ("sea", "table:app.copy", NotFound, 'no tube "sea"'),
    ],
)
def test_a_sync_that_makes_no_sense_is_refused_at_once(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tube: str, to: str, error: Any, said: str
) -> None:
    assert tl
    with pytest.raises(error, match=said):
        sync(spark, tube, to, dsn=dsn, once=True)


def test_one_table_of_several_is_not_synced_while_the_others_are_acknowledged(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    run(dsn, "create table app.customers (id bigint primary key)")
    tl.tube.attach("lake", "app.customers")
    with pytest.raises(Invalid, match="1 more table, whose changes would be taken for done"):
        sync(spark, "lake", "table:app.copy", relation="app.orders", dsn=dsn, once=True)


@pytest.fixture
def job(dsn: str, tl: SyncPlatform) -> Iterator[Sync]:
    """A sync whose rounds need no Spark."""
    assert tl
    made = Sync(cast("Any", None), "lake", lambda _rows, _batch: None, None, dsn, None, 1)
    made._round = lambda _work: None  # type: ignore[method-assign]
    yield made
    made.close()


@pytest.mark.parametrize(
    "change",
    [
        "create table app.late (id int primary key);"
        " select trunkline.tube_attach('lake', 'app.late'); insert into app.late values (1)",
        "alter table app.orders rename to renamed; insert into app.renamed values (1, 'a')",
        "select trunkline.tube_attach('lake', 'app.orders', key_columns => '{customer}');"
        " insert into app.orders values (1, 'a')",
    ],
)
def test_a_table_that_came_while_a_sync_ran_is_not_taken_for_done(
    dsn: str, tl: SyncPlatform, job: Sync, change: str
) -> None:
    run(dsn, change)
    with pytest.raises(Conflict, match="Start it again"):
        job.run(once=True, progress=silent, stop=Event())
    assert sum(row.live_entries for row in tl.tube.stats("lake")) > 0


def test_a_sync_knows_the_condition_as_it_is_and_leaves_detached_tables_alone(
    dsn: str, tl: SyncPlatform, job: Sync
) -> None:
    """Else what it collects after a backfill would be told by the condition of before."""
    tl.tube.attach("lake", "app.orders", condition="id > 5")
    run(dsn, FILL.format(first=1, last=9))
    assert job.run(once=True, progress=silent, stop=Event()).rounds == 1
    assert [table.condition for table in job._tables.values()] == ["(id > 5\n)"]
    run(dsn, FILL.format(first=10, last=19))
    tl.tube.detach("lake", "app.orders")
    assert job.run(once=True, progress=silent, stop=Event()).rounds == 1


def test_a_sync_does_not_go_on_in_another_life_of_the_server(dsn: str, job: Sync) -> None:
    run(dsn, FILL.format(first=1, last=2))
    job.run(once=True, progress=silent, stop=Event())
    run(dsn, "update trunkline.incarnation set timeline = timeline + 7")
    with pytest.raises(LeaseLost, match="failed over"):
        job.run(once=True, progress=silent, stop=Event())


def test_a_table_that_was_renamed_is_still_followed(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    assert tl
    run(dsn, FILL.format(first=1, last=20))
    run(dsn, "alter table app.orders rename to purchases")
    sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert table(dsn, "app.copy") == table(dsn, "app.purchases")


def test_an_audit_finds_what_differs_and_repairs_it(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    assert tl
    run(dsn, FILL.format(first=1, last=1000))
    sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    (report,) = audit(spark, "lake", "table:app.copy", dsn=dsn, patience=5)
    assert report.equal
    assert (report.rows, report.target_rows) == (1000, 1000)
    assert report.verdict().startswith("equal as of ")
    run(dsn, "update app.copy set amount = amount + 1 where id = 3")
    run(dsn, "delete from app.copy where id = 4")
    run(dsn, "insert into app.copy values (5000, 'x', 1, now(), null)")
    (report,) = audit(spark, "lake", "table:app.copy", dsn=dsn, patience=5)
    assert (report.different, report.missing, report.extra) == (1, 1, 1)
    assert report.sample == ["3", "4", "5000"]
    assert 1 <= len(report.differing_buckets) <= 3
    (report,) = audit(spark, "lake", "table:app.copy", dsn=dsn, repair=True)
    assert report.equal
    assert report.repaired == 3
    assert table(dsn, "app.copy") == table(dsn, "app.orders")


SEEN = """
create table app.seen (device bytea, at timestamptz, n int, primary key (device, at));
create table app.seen_copy (like app.seen including all);
do $$ begin
  execute format('alter database %I set timezone = %L', current_database(), 'Asia/Tokyo');
end $$
"""


def test_an_audit_repairs_rows_by_keys_of_times_and_bytes_in_computed_shards(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    run(dsn, SEEN)
    tl.tube.ensure("seen")
    tl.tube.attach("seen", "app.seen", shard="n % 3")
    run(
        dsn,
        "insert into app.seen"
        " select decode('ff01', 'hex'), now() + g * interval '1 hour', g"
        " from generate_series(1, 5) g",
    )
    sync(spark, "seen", "table:app.seen_copy", dsn=dsn, once=True)
    run(dsn, "delete from app.seen_copy where n = 2")
    (report,) = audit(spark, "seen", "table:app.seen_copy", dsn=dsn, repair=True, patience=20)
    assert (report.equal, report.repaired) == (True, 1)


@pytest.mark.parametrize("shard", ["0", "r.customer"])
def test_a_delta_table_follows_rows_that_stay_in_their_lane_and_rows_that_move(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path, shard: str
) -> None:
    tl.tube.detach("lake", "app.orders")
    tl.tube.attach("lake", "app.orders", shard=shard)
    to = f"delta:{tmp_path / 'orders'}"
    for changes in (
        FILL.format(first=1, last=100),
        "update app.orders set customer = 'somebody else' where id % 2 = 0",
        "delete from app.orders where id % 5 = 0",
    ):
        run(dsn, changes)
    sync(spark, "lake", to, dsn=dsn, once=True)
    rows = DeltaTable(str(tmp_path / "orders")).to_pyarrow_table()
    assert rows.sort_by("id").column("customer").to_pylist() == [
        name for (name,) in run(dsn, "select customer from app.orders order by id")
    ]


def test_a_backfill_that_finds_nothing_to_remove_writes_no_more_than_its_rows(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    assert tl
    path = str(tmp_path / "orders")
    run(dsn, FILL.format(first=1, last=300))
    sync(spark, "lake", f"delta:{path}", dsn=dsn, once=True)
    before = DeltaTable(path).version()
    done = backfill(spark, "lake", f"delta:{path}", dsn=dsn)
    assert done.collected == 1
    assert DeltaTable(path).version() == before + done.rounds


def test_a_delta_table_follows_and_is_audited(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    assert tl
    to = f"delta:{tmp_path / 'orders'}"
    run(dsn, FILL.format(first=1, last=3000))
    run(dsn, "delete from app.orders where id % 10 = 0")
    sync(spark, "lake", to, dsn=dsn, once=True)
    run(dsn, "update app.orders set customer = 'changed' where id < 100")
    run(dsn, "delete from app.orders where id between 1000 and 1100")
    sync(spark, "lake", to, dsn=dsn, once=True)
    (report,) = audit(spark, "lake", to, dsn=dsn, patience=5)
    assert report.equal, report
    assert report.rows == run(dsn, "select count(*) from app.orders")[0][0]
    run(dsn, "truncate app.orders")
    sync(spark, "lake", to, dsn=dsn, once=True)
    (report,) = audit(spark, "lake", to, dsn=dsn, patience=5)
    assert (report.equal, report.rows, report.target_rows) == (True, 0, 0)
