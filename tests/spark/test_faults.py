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
from psycopg.conninfo import conninfo_to_dict
from pyspark.errors import StreamingQueryException
from tests.spark.stream_job import Trap, events, into_seen, set_trap

import trunkline
from trunkline.core import migrate
from trunkline.core.errors import Conflict
from trunkline.spark import register, sync
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
PROGRAM = Path(sys.executable).with_name("trunkline")
PASSWORD = "s3cr3t"
PATIENCE = 180  # seconds for a driver, which takes ten on a calm machine
SETUP = """
create schema app;
create table app.seen (partition int, "offset" bigint, value text);
create table app.orders (id bigint primary key, customer text not null, amount numeric(12, 2));
create table app.copy (like app.orders including all);
"""
FILL = (
    "insert into app.orders select i, 'customer ' || i % 7, i * 1.5 from generate_series({}, {}) i"
)


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    run(dsn, SETUP)
    with trunkline.connect_sync(dsn) as platform:
        yield platform


def run(dsn: str, statement: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else None


def append(tl: SyncPlatform, first: int, last: int) -> None:
    for partition in (0, 1):
        tl.log.append("events", [b"%d" % n for n in range(first, last + 1)], partition=partition)


def seen(dsn: str) -> list[Any]:
    return run(dsn, 'select partition, "offset", value from app.seen order by 1, 2')


def expected(last: int, partitions: int = 2) -> list[Any]:
    return [(place, n, str(n)) for place in range(partitions) for n in range(1, last + 1)]


@pytest.fixture
def trapped(spark: SparkSession) -> Iterator[Callable[[Trap], None]]:
    """Set a trap in the session of the tests; it is gone afterwards."""
    yield lambda trap: set_trap(spark, trap)
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


def killed(folder: Path, **told: Any) -> None:
    """Run a driver that kills itself, and see that it did."""
    with driver(folder, str(JOB), json.dumps({"folder": str(folder), **told})) as process:
        code = process.wait(PATIENCE)
    assert code == -signal.SIGKILL, (folder / "said").read_text()[-4000:]


def leases_ran_out(dsn: str) -> None:
    """Let time pass: those who died own nothing any more."""
    run(dsn, "update trunkline.lease set expires = clock_timestamp()")


def differing(dsn: str) -> Any:
    """Rows of a table and its copy that have no equal on the other side."""
    return run(
        dsn,
        "(table app.orders except table app.copy)"
        " union all (table app.copy except table app.orders)",
    )


@pytest.mark.parametrize(
    "phases",
    [
        pytest.param({"commit": 1}, id="one"),
        pytest.param(
            {"plan": 0, "task": 1, "commit": 2, "done": 3}, id="all", marks=pytest.mark.soak
        ),
    ],
)
def test_a_stream_whose_driver_is_killed_in_any_phase_writes_every_message_once(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path, phases: dict[str, int]
) -> None:
    tl.log.create("events", partitions=2)
    append(tl, 1, 500)
    checkpoint = tmp_path / "checkpoint"
    for phase, batch in phases.items():
        killed(
            tmp_path, job="stream", dsn=dsn, checkpoint=str(checkpoint), phase=phase, batch=batch
        )
        assert not (checkpoint / "commits" / str(batch)).exists()
        assert len(seen(dsn)) == 200 * (batch + (phase == "done"))
    assert run(dsn, "select count(*) > 0 from trunkline.spark_staging") == [(True,)]
    into_seen(events(spark, dsn), dsn, str(checkpoint)).awaitTermination()
    assert seen(dsn) == expected(500)
    assert run(dsn, "select batch, rows from trunkline.spark_ledger order by batch") == [
        (batch, 200) for batch in range(5)
    ]


@pytest.mark.parametrize(
    "phases",
    [
        pytest.param(["acknowledge"], id="one"),
        pytest.param(["task", "acknowledge"], id="all", marks=pytest.mark.soak),
    ],
)
def test_a_sync_whose_driver_is_killed_before_or_after_its_commit_ends_equal(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path, phases: list[str]
) -> None:
    tl.tube.ensure("lake", lanes=2)
    tl.tube.attach("lake", "app.orders")
    run(dsn, FILL.format(1, 3000))
    for phase in phases:
        killed(tmp_path, job="sync", dsn=dsn, phase=phase)
        copied = run(dsn, "select count(*) from app.copy")
        assert copied == [(3000 if phase == "acknowledge" else 0,)]
        assert sum(row.live_entries for row in tl.tube.stats("lake")) > 0
        leases_ran_out(dsn)
    run(dsn, "update app.orders set amount = 0 where id % 3 = 0")
    run(dsn, "delete from app.orders where id % 7 = 0")
    sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert differing(dsn) == []
    assert sum(row.live_entries for row in tl.tube.stats("lake")) == 0


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_server_that_goes_away_before_a_commit_costs_no_message_and_doubles_none(
    spark: SparkSession,
    own_server: Callable[..., Server],
    trapped: Callable[[Trap], None],
    tmp_path: Path,
    how: str,
) -> None:
    server = own_server()
    dsn = server.dsn("postgres")
    migrate.install(dsn)
    run(dsn, SETUP)
    with trunkline.connect_sync(dsn) as tl:
        tl.log.create("events", partitions=2)
        append(tl, 1, 300)
    trapped(Trap("commit", batch=1, folder=str(tmp_path)))
    checkpoint = str(tmp_path / "checkpoint")
    with streaming(into_seen(events(spark, dsn), dsn, checkpoint)) as query:
        wait_until(lambda: (tmp_path / "reached").exists(), PATIENCE)
        if how == "restart":
            server.restart()
        else:
            server.kill()
            server.start()
        (tmp_path / "go").touch()
        if how == "restart":
            assert query.awaitTermination(PATIENCE)
        else:  # staging tables are unlogged, and empty after a crash
            with pytest.raises(StreamingQueryException, match="staged 100 rows, 0 are there") as e:
                query.awaitTermination(PATIENCE)
            assert len(str(e.value).splitlines()) < 40
            assert len(seen(dsn)) == 200
    if how == "crash":
        assert into_seen(events(spark, dsn), dsn, checkpoint).awaitTermination(PATIENCE)
    assert seen(dsn) == expected(300)


def test_a_running_stream_survives_cut_connections_and_finds_new_partitions(
    spark: SparkSession,
    dsn: str,
    tl: SyncPlatform,
    proxy: Callable[[str], Proxy],
    trapped: Callable[[Trap], None],
    tmp_path: Path,
) -> None:
    line = proxy(dsn)
    tl.log.create("events", partitions=2)
    append(tl, 1, 50)
    trapped(Trap("commit", batch=1, folder=str(tmp_path)))
    rows = events(spark, line.dsn)
    query = into_seen(rows, line.dsn, str(tmp_path / "checkpoint"), processingTime="0 seconds")
    with streaming(query):
        wait_until(lambda: seen(dsn) == expected(50), PATIENCE)
        append(tl, 51, 100)
        wait_until(lambda: (tmp_path / "reached").exists(), PATIENCE)
        line.cut()
        (tmp_path / "go").touch()
        wait_until(lambda: seen(dsn) == expected(100), PATIENCE)
        line.cut()
        append(tl, 101, 110)
        wait_until(lambda: seen(dsn) == expected(110), PATIENCE)
        tl.log.alter("events", partitions=3)
        tl.log.append("events", [b"%d" % n for n in range(1, 111)], partition=2)
        wait_until(lambda: seen(dsn) == expected(110, partitions=3), PATIENCE)
        assert query.exception() is None


@pytest.mark.parametrize("how", ["restart", "cut"])
def test_a_running_sync_goes_on_after_a_restart_and_after_a_cut(
    spark: SparkSession,
    own_server: Callable[..., Server],
    proxy: Callable[[str], Proxy],
    how: str,
) -> None:
    server = own_server()
    dsn = server.dsn("postgres")
    migrate.install(dsn)
    run(dsn, SETUP)
    line = proxy(dsn)
    with trunkline.connect_sync(dsn) as tl:
        tl.tube.ensure("lake", lanes=2)
        tl.tube.attach("lake", "app.orders")
    stop, failures = Event(), []

    def work() -> None:
        try:
            sync(spark, "lake", "table:app.copy", dsn=line.dsn, stop=stop)
        except Exception as error:
            failures.append(error)

    thread = Thread(target=work)
    thread.start()
    try:
        run(dsn, FILL.format(1, 1000))
        wait_until(lambda: failures or differing(dsn) == [], PATIENCE)
        if how == "restart":
            server.restart()
        else:
            line.cut()
        run(dsn, FILL.format(1001, 3000))
        wait_until(lambda: failures or differing(dsn) == [], PATIENCE)
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert failures == []
    run(dsn, "delete from app.orders where id % 10 = 0")
    sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
    assert differing(dsn) == []


def test_two_drivers_on_one_checkpoint_write_once_and_keep_passwords_to_themselves(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    tl.log.create("events", partitions=2)
    append(tl, 1, 300)
    secret, checkpoint = with_password(dsn), tmp_path / "checkpoint"
    told = {
        "job": "stream",
        "dsn": secret,
        "folder": str(tmp_path),
        "checkpoint": str(checkpoint),
        "phase": "commit",
        "batch": 1,
        "pause": True,
        "conf": logging_events(tmp_path),
    }
    with driver(tmp_path, str(JOB), json.dumps(told)) as first:
        wait_until(lambda: (tmp_path / "reached").exists() or first.poll() is not None, PATIENCE)
        assert first.poll() is None, (tmp_path / "said").read_text()[-4000:]
        assert into_seen(events(spark, dsn), dsn, str(checkpoint)).awaitTermination(PATIENCE)
        assert seen(dsn) == expected(300)
        (tmp_path / "go").touch()
        assert first.wait(PATIENCE) == 1
    said = (tmp_path / "said").read_text()
    assert "progress" in said
    assert "ConcurrentModificationException" in said or "CONCURRENT" in said, said[-4000:]
    assert seen(dsn) == expected(300)
    logged = b"".join(f.read_bytes() for f in (tmp_path / "events").rglob("*") if f.is_file())
    assert b"SparkListenerSQLExecutionStart" in logged
    assert files_with_password(tmp_path) == []


def test_a_second_process_on_a_sync_is_told_who_works_there(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    tl.tube.ensure("lake", lanes=2)
    tl.tube.attach("lake", "app.orders")
    run(dsn, FILL.format(1, 1000))
    secret = with_password(dsn)
    conf = [f"--conf={name}={value}" for name, value in logging_events(tmp_path).items()]
    words = ["spark", "sync", "lake", "--to", "table:app.copy", "--dsn", secret, *conf]
    with driver(tmp_path, str(PROGRAM), *words) as first:
        wait_until(lambda: differing(dsn) == [] or first.poll() is not None, PATIENCE)
        with pytest.raises(Conflict, match=rf"worked on by spark sync lake by \S+:{first.pid}\b"):
            sync(spark, "lake", "table:app.copy", dsn=dsn, once=True)
        first.send_signal(signal.SIGTERM)
        assert first.wait(PATIENCE) == 0, (tmp_path / "said").read_text()
    said = (tmp_path / "said").read_text()
    assert '"keys": 1000' in said
    assert len(said.splitlines()) < 12, said
    assert files_with_password(tmp_path) == []


def test_a_password_is_not_in_plans_progress_or_errors(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path, capsys: Any
) -> None:
    tl.log.create("events", partitions=2)
    append(tl, 1, 10)
    secret = with_password(dsn)
    given = {"dsn": secret, "subscribe": "events"}
    rows = spark.read.format("trunkline.log").options(**given).load()
    rows = rows.where("partition = 1 and offset > 2")
    rows.explain(extended=True)
    rows.explain(mode="formatted")
    table = spark.read.format("trunkline.table").options(dsn=secret, dbtable="app.seen").load()
    table.explain(extended=True)
    query = into_seen(events(spark, secret), secret, str(tmp_path))
    assert query.awaitTermination(PATIENCE)
    query.explain(extended=True)
    progress = json.dumps([each.json for each in query.recentProgress])
    shown = capsys.readouterr().out + progress
    assert "trunkline.log" in shown
    assert "numInputRows" in progress
    assert PASSWORD not in shown
    run(dsn, "drop table app.seen")
    for broken in (
        lambda: table.collect(),
        lambda: rows.write.format("trunkline.table").options(dsn=secret, dbtable="app.no").save(),
        lambda: spark.read.format("trunkline.log").options(**given, dns=secret).load(),
        lambda: into_seen(rows, secret, str(tmp_path)),
        lambda: sync(spark, "lake", "table:app.seen", dsn=secret, once=True),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is, it keeps quiet
            broken()
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))
