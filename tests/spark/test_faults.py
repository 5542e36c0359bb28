"""What Spark's drivers do when they are killed, or when what they stand on goes away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import psycopg
import pytest
from deltalake import DeltaTable
from psycopg.conninfo import conninfo_to_dict
from pyspark.errors import StreamingQueryException
from tests.fixtures.asking import ask
from tests.fixtures.spark import DURABLE, environment_of_a_jvm
from tests.log.archiving import drop_archived
from tests.log.steps import create, seal
from tests.spark.stream_job import BATCH, PATIENCE, Trap, set_traps, start_stream

import trunkline
from trunkline.core import migrate
from trunkline.core.errors import Conflict
from trunkline.spark import archive, register, sync
from trunkline.spark.delta import STAGING
from trunkline.spark.jobs.archive_delta import delta_files
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery
    from tests.fixtures.proxy import Proxy

    from trunkline.core.embedded import Server
    from trunkline.platform import SyncPlatform

pytestmark = [pytest.mark.crash, pytest.mark.timeout(400)]

JOB = Path(__file__).with_name("stream_job.py")
PASSWORD = "s3cr3t"
ORDERS = """
create schema app;
create table app.orders (id bigint primary key, customer text not null, amount numeric(12, 2));
"""
SEEN = 'create table app.{} (partition int, "offset" bigint, value text)'
COPY = "create table app.{} (like app.orders including all)"
FILL = (
    "insert into app.orders select i, 'customer ' || i % 7, i * 1.5 from generate_series({}, {}) i"
)


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    run(dsn, ORDERS)
    with trunkline.connect_sync(dsn) as platform:
        yield platform


def run(dsn: str, statement: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else None


def add_stream(tl: SyncPlatform, dsn: str, name: str, last: int) -> None:
    """A topic with messages, and the table for them."""
    tl.log.create(name, partitions=2)
    append(tl, name, 1, last)
    run(dsn, SEEN.format(name))


def add_sync(tl: SyncPlatform, dsn: str, name: str) -> None:
    """A tube on the orders, and the table for them."""
    tl.tube.ensure(name, lanes=2)
    tl.tube.attach(name, "app.orders")
    run(dsn, COPY.format(name))


def append(tl: SyncPlatform, name: str, first: int, last: int) -> None:
    for partition in (0, 1):
        tl.log.append(name, [b"%d" % n for n in range(first, last + 1)], partition=partition)


def seen(dsn: str, name: str) -> list[Any]:
    return run(dsn, f'select partition, "offset", value from app.{name} order by 1, 2')


def expected(last: int, partitions: int = 2) -> list[Any]:
    return [(place, n, str(n)) for place in range(partitions) for n in range(1, last + 1)]


@pytest.fixture
def trapped(spark: SparkSession) -> Iterator[Callable[[Trap], None]]:
    """Set a trap in the session of the tests; it is gone afterwards."""
    yield lambda trap: set_traps(spark, {trap.name: trap})
    register(spark)


@contextmanager
def streaming(query: StreamingQuery) -> Iterator[StreamingQuery]:
    """A stream that ends with the block, whatever became of it."""
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def driver(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A program that is killed at the end of the block; what it says is in the file ``said``."""
    with (folder / "said").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *words],
            env=os.environ | environment_of_a_jvm(),
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def said(folder: Path) -> str:
    return (folder / "said").read_text()


def with_password(dsn: str) -> str:
    """The same server, which trusts everybody, with a password that must not be seen again."""
    parts = conninfo_to_dict(dsn)
    place = urlencode({"host": parts["host"], "port": parts["port"]})
    return f"postgresql://{parts['user']}:{PASSWORD}@/{parts['dbname']}?{place}"


def files_with_password(folder: Path) -> list[str]:
    return [
        str(file.relative_to(folder))
        for file in folder.rglob("*")
        if file.is_file() and PASSWORD.encode() in file.read_bytes()
    ]


def logging_events(folder: Path) -> dict[str, str]:
    """Settings with which Spark writes all that happens into files, as it comes."""
    (folder / "events").mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.eventLog.buffer.kb": "1",
    }


def leases_ran_out(dsn: str) -> None:
    """Let time pass: those who died own nothing any more."""
    run(dsn, "update trunkline.lease set expires = clock_timestamp()")


def differing(dsn: str, name: str) -> Any:
    """Rows of a table and its copy that have no equal on the other side."""
    return run(
        dsn,
        f"(table app.orders except table app.{name})"
        f" union all (table app.{name} except table app.orders)",
    )


STREAMS = {
    "planning": ("plan", 0),
    "staging": ("task", 1),
    "committing": ("commit", 1),
    "committed": ("done", 1),
}
LATE = {"late": ("commit", 1)}
SYNCS = {"copying": ("task",), "copied": ("acknowledge",), "filing": ("files",)}
ARCHIVES = ("reading", "noting")


def test_jobs_whose_driver_is_killed_in_any_phase_lose_nothing_and_double_nothing(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    """One driver with a job for every phase; a stream that another driver overtook besides."""
    for name in (*STREAMS, *LATE):
        add_stream(tl, dsn, name, 300)
    for name in SYNCS:
        add_sync(tl, dsn, name)
    run(dsn, FILL.format(1, 2000))
    topics = add_archives(tl, dsn)
    syncs = {name: sync_target(name, tmp_path) for name in SYNCS}
    told = {
        "dsn": with_password(dsn),
        "folder": str(tmp_path),
        "conf": DURABLE | logging_events(tmp_path),
        "traps": STREAMS | LATE | SYNCS,
        "streams": [*STREAMS, *LATE],
        "syncs": syncs,
        "archives": ARCHIVES,
    }
    with archives_held(dsn), driver(tmp_path, str(JOB), json.dumps(told)) as first:

        def all_wait() -> bool:
            waiting = {file.stem for file in tmp_path.glob("*.reached")}
            return waiting == set(told["traps"]) and blocked(dsn) == len(ARCHIVES)

        wait_until(lambda: "failed" in said(tmp_path) or all_wait(), PATIENCE)
        assert all_wait(), said(tmp_path)[-4000:]
        overtake(spark, dsn, tmp_path, "late")
        for name, to in syncs.items():
            with pytest.raises(Conflict, match=rf"spark sync {name} by \S+:{first.pid}\b"):
                sync(spark, name, to, dsn=dsn, once=True)
        for name in ARCHIVES:
            with pytest.raises(Conflict, match=rf"archive by \S+:{first.pid}\b"):
                archive(spark, [name], location=f"{tmp_path}/lake", dsn=dsn)

    assert " ended" not in said(tmp_path)
    logged = b"".join(f.read_bytes() for f in (tmp_path / "events").rglob("*") if f.is_file())
    assert b"SparkListenerSQLExecutionStart" in logged
    assert files_with_password(tmp_path) == []
    leases_ran_out(dsn)
    streams_go_on(spark, dsn, tmp_path)
    syncs_go_on(spark, dsn, tl, tmp_path)
    archives_go_on(spark, dsn, tl, f"{tmp_path}/lake", topics)


def overtake(spark: SparkSession, dsn: str, folder: Path, name: str) -> None:
    """Work on the checkpoint of a stream that waits; when it is let go, it has to give up."""
    query = start_stream(spark, dsn, name, f"{folder}/{name}")
    assert query.awaitTermination(PATIENCE)
    assert seen(dsn, name) == expected(300)
    (folder / f"{name}.go").touch()
    wait_until(lambda: f"{name} failed" in said(folder), PATIENCE)
    words = said(folder)
    assert "progress" in words
    assert "ConcurrentModificationException" in words or "CONCURRENT" in words, words[-4000:]
    assert seen(dsn, name) == expected(300)


def streams_go_on(spark: SparkSession, dsn: str, folder: Path) -> None:
    for name, (phase, batch) in STREAMS.items():
        assert not (folder / name / "commits" / str(batch)).exists()
        assert len(seen(dsn, name)) == BATCH * (batch + (phase == "done"))
    assert run(dsn, "select count(*) > 0 from trunkline.spark_staging") == [(True,)]
    for name in STREAMS:
        assert start_stream(spark, dsn, name, f"{folder}/{name}").awaitTermination(PATIENCE)
        assert seen(dsn, name) == expected(300)
    assert run(
        dsn,
        "select batch, count(*), min(rows), max(rows) from trunkline.spark_ledger"
        " where app not like 'sync %' group by batch order by batch",
    ) == [(batch, len(STREAMS) + len(LATE), BATCH, BATCH) for batch in range(3)]


def sync_target(name: str, folder: Path) -> str:
    return f"delta:{folder / name}" if SYNCS[name] == ("files",) else f"table:app.{name}"


def syncs_go_on(spark: SparkSession, dsn: str, tl: SyncPlatform, folder: Path) -> None:
    for name, (phase,) in SYNCS.items():
        copied = run(dsn, f"select count(*) from app.{name}")
        assert copied == [(2000 if phase == "acknowledge" else 0,)]
        assert sum(row.live_entries for row in tl.tube.stats(name)) > 0
    assert list((folder / "filing" / STAGING).iterdir())
    assert not DeltaTable.is_deltatable(str(folder / "filing"))
    run(dsn, "update app.orders set amount = 0 where id % 3 = 0")
    run(dsn, "delete from app.orders where id % 7 = 0")
    for name in SYNCS:
        sync(spark, name, sync_target(name, folder), dsn=dsn, once=True)
        assert sum(row.live_entries for row in tl.tube.stats(name)) == 0
    for name in ("copying", "copied"):
        assert differing(dsn, name) == []
    filed = DeltaTable(str(folder / "filing")).to_pyarrow_table().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in filed] == run(dsn, "table app.orders order by id")


def add_archives(tl: SyncPlatform, dsn: str) -> dict[str, Any]:
    """Topics with three sealed segments; what they hold."""
    with psycopg.connect(dsn, autocommit=True) as session:
        for name in ARCHIVES:
            create(session, name, archive=True)
            for segment in range(3):
                values = [b"%d/%d" % (segment, n) for n in range(20)]
                tl.log.append(name, values, keys=values)
                assert seal(session, name)
    return {name: list(tl.log.read(name, 0)) for name in ARCHIVES}


@contextmanager
def archives_held(dsn: str) -> Iterator[None]:
    """Nobody reads a segment of the one topic; nobody writes the manifest, to which that leads."""
    reading, _ = ARCHIVES
    with psycopg.connect(dsn) as session:
        found = f"select segment_id from trunkline.log_archivable('{reading}') offset 1 limit 1"
        session.execute(f"lock table trunkline.log_segment_{ask(session, found)}".encode())
        session.execute("lock table trunkline.log_archive in exclusive mode")
        yield
        session.rollback()


def blocked(dsn: str) -> int:
    """How many tables are waited for."""
    [(count,)] = run(
        dsn,
        "select count(distinct l.relation) from pg_locks l join pg_stat_activity a using (pid)"
        " where not l.granted and l.locktype = 'relation' and a.datname = current_database()",
    )
    return int(count)


def archives_go_on(
    spark: SparkSession, dsn: str, tl: SyncPlatform, lake: str, topics: dict[str, Any]
) -> None:
    archive(spark, location=lake, dsn=dsn)
    assert run(
        dsn,
        "select topic, first_offset, last_offset from trunkline.log_archive"
        " join trunkline.log_topic using (topic_id) order by 1, 2",
    ) == [(name, first, first + 19) for name in sorted(ARCHIVES) for first in (1, 21, 41)]
    with psycopg.connect(dsn, autocommit=True) as session:
        drop_archived(session)
    for name, messages in topics.items():
        assert list(tl.log.read(name, 0)) == messages
        assert DeltaTable(f"{lake}/{name}").to_pyarrow_table().num_rows == 60
        noted = run(
            dsn,
            "select files -> 0 ->> 'path' from trunkline.log_archive"
            f" join trunkline.log_topic using (topic_id) where topic = '{name}'",
        )
        assert {(file,) for file in delta_files(f"{lake}/{name}")} == set(noted)


def test_a_server_that_goes_away_before_a_commit_costs_no_message_and_doubles_none(
    spark: SparkSession,
    own_server: Callable[..., Server],
    trapped: Callable[[Trap], None],
    tmp_path: Path,
) -> None:
    server = own_server()
    dsn = server.dsn("postgres")
    migrate.install(dsn)
    run(dsn, ORDERS)
    checkpoint = str(tmp_path / "checkpoint")
    with trunkline.connect_sync(dsn) as tl:
        add_stream(tl, dsn, "events", 300)

    def go_past(batch: int, happens: Callable[[], Any]) -> None:
        """Run the stream; something happens before it commits a batch."""
        place = tmp_path / f"before {batch}"
        place.mkdir()
        trap = Trap(str(place), "events", "commit", batch)
        trapped(trap)
        with streaming(start_stream(spark, dsn, "events", checkpoint)) as query:
            wait_until(trap.reached.exists, PATIENCE)
            happens()
            trap.go.touch()
            assert query.awaitTermination(PATIENCE)

    def crash() -> None:
        server.kill()
        server.start()

    go_past(1, server.restart)
    assert seen(dsn, "events") == expected(300)
    with trunkline.connect_sync(dsn) as tl:
        append(tl, "events", 301, 500)
    # staging tables are unlogged, and empty after a crash
    with pytest.raises(StreamingQueryException, match="staged 100 rows, 0 are there") as caught:
        go_past(4, crash)
    assert len(str(caught.value).splitlines()) < 40
    assert len(seen(dsn, "events")) == 4 * BATCH
    assert start_stream(spark, dsn, "events", checkpoint).awaitTermination(PATIENCE)
    assert seen(dsn, "events") == expected(500)


def test_a_running_stream_survives_cut_connections_and_finds_new_partitions(
    spark: SparkSession,
    dsn: str,
    tl: SyncPlatform,
    proxy: Callable[[str], Proxy],
    trapped: Callable[[Trap], None],
    tmp_path: Path,
) -> None:
    line = proxy(dsn)
    add_stream(tl, dsn, "events", 50)
    trap = Trap(str(tmp_path), "events", "commit", 1)
    trapped(trap)
    checkpoint = str(tmp_path / "checkpoint")
    query = start_stream(spark, line.dsn, "events", checkpoint, processingTime="0 seconds")
    with streaming(query):
        wait_until(lambda: seen(dsn, "events") == expected(50), PATIENCE)
        append(tl, "events", 51, 100)
        wait_until(trap.reached.exists, PATIENCE)
        line.cut()
        trap.go.touch()
        wait_until(lambda: seen(dsn, "events") == expected(100), PATIENCE)
        line.cut()
        append(tl, "events", 101, 110)
        wait_until(lambda: seen(dsn, "events") == expected(110), PATIENCE)
        tl.log.alter("events", partitions=3)
        tl.log.append("events", [b"%d" % n for n in range(1, 111)], partition=2)
        wait_until(lambda: seen(dsn, "events") == expected(110, partitions=3), PATIENCE)
        assert query.exception() is None


def test_a_running_sync_goes_on_after_a_restart_and_after_a_cut(
    spark: SparkSession,
    own_server: Callable[..., Server],
    proxy: Callable[[str], Proxy],
) -> None:
    server = own_server()
    dsn = server.dsn("postgres")
    migrate.install(dsn)
    run(dsn, ORDERS)
    line = proxy(dsn)
    with trunkline.connect_sync(dsn) as tl:
        add_sync(tl, dsn, "copy")
    stop, failures = Event(), []

    def work() -> None:
        try:
            sync(spark, "copy", "table:app.copy", dsn=line.dsn, stop=stop)
        except Exception as error:
            failures.append(error)

    def follows() -> bool:
        assert failures == []
        return differing(dsn, "copy") == []

    thread = Thread(target=work)
    thread.start()
    try:
        run(dsn, FILL.format(1, 1000))
        wait_until(follows, PATIENCE)
        server.restart()
        run(dsn, FILL.format(1001, 3000))
        wait_until(follows, PATIENCE)
        line.cut()
        run(dsn, "update app.orders set amount = 0 where id % 3 = 0")
        wait_until(follows, PATIENCE)
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert failures == []
    run(dsn, "delete from app.orders where id % 10 = 0")
    sync(spark, "copy", "table:app.copy", dsn=dsn, once=True)
    assert differing(dsn, "copy") == []


def test_a_password_is_not_in_plans_progress_or_errors(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path, capsys: Any
) -> None:
    add_stream(tl, dsn, "events", 10)
    secret = with_password(dsn)
    given = {"dsn": secret, "subscribe": "events"}
    rows = spark.read.format("trunkline.log").options(**given).load()
    rows = rows.where("partition = 1 and offset > 2")
    rows.explain(extended=True)
    rows.explain(mode="formatted")
    table = spark.read.format("trunkline.table").options(dsn=secret, dbtable="app.events").load()
    table.explain(extended=True)
    query = start_stream(spark, secret, "events", f"{tmp_path}/a")
    assert query.awaitTermination(PATIENCE)
    query.explain(extended=True)
    progress = json.dumps([each.json for each in query.recentProgress])
    shown = capsys.readouterr().out + progress
    assert "trunkline.log" in shown
    assert "numInputRows" in progress
    assert PASSWORD not in shown
    run(dsn, "drop table app.events")
    for broken in (
        lambda: table.collect(),
        lambda: rows.write.format("trunkline.table").options(dsn=secret, dbtable="app.no").save(),
        lambda: spark.read.format("trunkline.log").options(**given, dns=secret).load(),
        lambda: start_stream(spark, secret, "events", f"{tmp_path}/b").awaitTermination(PATIENCE),
        lambda: sync(spark, "lake", "table:app.events", dsn=secret, once=True),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it keeps quiet
            broken()
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))
