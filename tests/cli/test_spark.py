"""``trunkline spark``: what cannot work is said in a few lines, before Spark is started."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql import SparkSession
from tests.fixtures.asking import ask

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Cli

PASSWORD = "s3cr3t"
NIGHT = UUID(int=7)
NOWHERE = f"postgresql://postgres:{PASSWORD}@127.0.0.1:1/postgres"
SETUP = """
create schema app;
create table app.orders (id bigint primary key, amount numeric);
create table app.copy (like app.orders including all);
select trunkline.tube_ensure('lake', 2);
select trunkline.tube_attach('lake', 'app.orders');
select trunkline.tube_ensure('two', 1);
select trunkline.tube_attach('two', 'app.orders');
select trunkline.tube_attach('two', 'app.copy');
"""


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_words: Any, **_conf: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", started)


@pytest.mark.usefixtures("no_spark")
@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("sync sea --to table:app.copy", 3, 'there is no tube "sea"'),
        ("sync lake --to csv:copy", 2, 'delta:PATH or table:NAME, got "csv:copy"'),
        ("sync lake --to csv:copy --dry-run", 2, 'delta:PATH or table:NAME, got "csv:copy"'),
        ("backfill lake --to table:app.none --dry-run", 3, "there is no table or view"),
        ("sync lake --to table:app.none", 3, 'there is no table or view "app.none"'),
        ("sync lake --to table:app.copy --relation app.none", 3, "is not attached to tube"),
        ("sync lake --to table:app.copy --conf memory=1", 2, "spark.name=value"),
        ("sync lake --to table:app.copy --dsn {nowhere}", 1, "Connection refused"),
        ("sync lake --to table:app.copy --target-dsn {nowhere}", 1, "Connection refused"),
        ("backfill sea --to table:app.copy", 3, 'there is no tube "sea"'),
        ("backfill lake --to table:app.copy --relation app.none", 3, "is not attached to tube"),
        ("backfill two --to table:app.copy --relation app.orders", 2, "has several tables"),
        ("audit lake --to delta:{folder}/none", 3, "there is no Delta table in"),
        ("audit lake", 2, "TUBE and --to"),
        ("audit --topic none", 3, 'there is no topic "none"'),
        ("audit lake --to table:app.copy --html {folder}/no/x", 2, "/no/x cannot be written: No"),
        ("replay csv:x events", 2, "topic:NAME, delta:PATH or parquet:PATH"),
        ("replay delta:{folder} t --since yesterday", 2, "since is a time such as 2026-01-31"),
        ("sync lake --to table:app.copy --master nonsense", 2, "spark://HOST:PORT"),
        ("audit lake --to table:app.copy --patience -1", 2, "patience"),
        ("archive --location {folder} --format csv", 2, '"delta" or "parquet", got "csv"'),
        ("replay topic:none events", 3, "there is no topic"),
        ("replay delta:{folder} kv:none", 3, 'there is no namespace "none"'),
        ("replay delta:{folder} csv:x", 2, "to a topic or to kv:NAMESPACE"),
        ("replay delta:{folder} kv:default --keep-partitions", 2, "kv:default has no partitions"),
        ("archive none --location {folder}", 3, 'there is no topic "none"'),
    ],
)
def test_a_job_that_cannot_work_says_so_before_spark_starts(
    cli: Cli,
    sql: psycopg.Connection[Any],
    tmp_path: Path,
    words: str,
    code: int,
    message: str,
) -> None:
    sql.execute(SETUP)
    done = cli("spark", *words.format(folder=tmp_path, nowhere=NOWHERE).split())
    said = done.out + done.err
    assert (done.code, message in said) == (code, True), said
    assert len(said.splitlines()) < 6, said
    assert "Traceback" not in said
    assert PASSWORD not in said


@pytest.mark.usefixtures("no_spark")
def test_a_tube_that_somebody_works_is_refused_with_who_and_for_how_long(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    sql.execute(SETUP)
    sql.execute("select trunkline.lease_renew(%s, 'night shift@host:7')", [NIGHT])
    sql.execute("select trunkline.tube_join('lake', %s)", [NIGHT])
    words = ("spark", "sync", "lake", "--to", "table:app.copy")
    done = cli(*words)
    assert (done.code, "worked on by night shift@host:7 (lease for " in done.err) == (4, True)
    assert cli(*words, "--dry-run").code == 0
    sql.execute("update trunkline.lease set expires = clock_timestamp()")
    assert "Spark was started" in cli(*words).err


def test_a_remote_session_says_how_to_get_spark_connect(
    cli: Cli, sql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.execute(SETUP)
    monkeypatch.setitem(sys.modules, "grpc", None)
    done = cli("spark", "sync", "lake", "--to", "table:app.copy", "--remote", "sc://127.0.0.1:1")
    assert done.code == 2
    assert "pip install 'trunkline[spark-connect]'" in done.err
    assert len(done.err.splitlines()) < 6


def test_without_java_a_job_says_how_to_get_it(
    cli: Cli, sql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql.execute(SETUP)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    done = cli("spark", "sync", "lake", "--to", "table:app.copy")
    assert done.code == 1
    assert "JAVA_HOME is /nowhere, but there is no Java." in done.err
    assert "apt-get install" in done.err
    assert len(done.err.splitlines()) < 6


@pytest.fixture
def signals() -> Iterator[None]:
    """What a signal does is as before, when the test is over."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("spark", "signals")
def test_a_sync_that_is_told_to_end_finishes_its_round_and_says_what_it_did(
    cli: Cli, dsn: str, sql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)  # it is that of other tests too
    sql.execute(SETUP)
    sql.execute("insert into app.orders select i, i * 1.5 from generate_series(1, 1000) i")

    def end() -> None:
        try:
            with psycopg.connect(dsn, autocommit=True) as watcher:
                wait_until(lambda: ask(watcher, "select count(*) = 1000 from app.copy"), 60)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    secret = make_conninfo(dsn, password=PASSWORD)
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(end)
        done = cli("spark", "sync", "lake", "--to", "table:app.copy", "--dsn", secret)
        ended.result()
    assert (done.code, [row["keys"] for row in done.rows]) == (0, [1000]), done.err
    assert len((done.out + done.err).splitlines()) < 12
    assert PASSWORD not in done.out + done.err
