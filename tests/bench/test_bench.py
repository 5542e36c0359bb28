"""The measurements run, and compare what they say they compare."""

from __future__ import annotations

import json
from contextlib import closing
from importlib import import_module
from typing import TYPE_CHECKING

import psycopg
import pytest

from bench import kv as kv_bench
from bench import live as live_bench
from trunkline.broker import bench as broker_bench
from trunkline.core.errors import Invalid
from trunkline.log.batches import pack
from trunkline.log.bench import CELLS, run
from trunkline.log.bench.baseline import Baseline
from trunkline.log.bench.least import Least
from trunkline.log.bench.measure import Row, Slice, Target, figures, ratio
from trunkline.log.bench.messages import make_messages
from trunkline.log.bench.report import table

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def baseline(dsn: str) -> Iterator[Baseline]:
    made = Baseline(dsn)
    made.create()
    yield made
    made.close()


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_runs_and_says_what_it_found(
    dsn: str, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who measures waits until no session tells what it wrote before.
    monkeypatch.setattr(import_module("trunkline.log.bench.idle"), "_SETTLE", 0.5)
    said: list[str] = []
    result = run(dsn, quick=True, only=cell, runs=1, progress=said.append)
    assert result["cells"]
    assert all(row["cell"] == cell for row in result["cells"])
    assert all(row["verdict"] in {"ok", "below", ""} for row in result["cells"])
    assert len(said) == len(result["cells"]) + 1
    assert table(result).row_count == len(result["cells"])
    json.dumps(result)


def test_the_broker_is_measured_against_the_same_deliveries(dsn: str) -> None:
    result = broker_bench.run(dsn, quick=True, only="deliver", runs=1)
    assert [row["cell"] for row in result["cells"]] == ["deliver"] * 8
    assert all(row["result"] > 0 for row in result["cells"])
    json.dumps(result)
    with psycopg.connect(dsn) as connection:
        left = connection.execute(
            "select (select count(*) from trunkline.broker_group),"
            " (select count(*) from pg_namespace where nspname = 'bench_broker')"
        ).fetchone()
    assert left == (0, 0)


def test_keys_are_measured_against_the_design_of_the_seed(dsn: str) -> None:
    result = kv_bench.run(dsn, quick=True, only="replicate", runs=1)
    assert [row["cell"] for row in result["cells"]] == ["replicate"]
    assert all(row["result"] > 0 for row in result["cells"])
    with psycopg.connect(dsn) as connection:
        left = connection.execute(
            "select count(*) from pg_database where datname ~ '^bench_'"
        ).fetchone()
    assert left == (0,)


def test_live_tables_are_measured_against_the_design_of_the_seed(dsn: str) -> None:
    result = live_bench.run(dsn, quick=True, only="write", runs=1)
    assert [row["cell"] for row in result["cells"]] == ["write", "write"]
    assert all(row["result"] > 0 for row in result["cells"])
    with psycopg.connect(dsn) as connection:
        left = connection.execute(
            "select (select count(*) from pg_namespace where nspname = 'bench_live'),"
            " (select count(*) from trunkline.live_table)"
        ).fetchone()
    assert left == (0, 0)


def test_a_run_leaves_nothing_behind(dsn: str) -> None:
    run(dsn, quick=True, only="single", runs=1)
    with psycopg.connect(dsn) as connection:
        left = connection.execute(
            "select (select count(*) from trunkline.log_topic),"
            " (select count(*) from pg_namespace where nspname = 'bench_seed')"
        ).fetchone()
    assert left == (0, 0)


def test_an_unknown_cell_is_refused_before_anything_is_done(dsn: str) -> None:
    with pytest.raises(Invalid, match="no cell 'nonsense'"):
        run(dsn, only="append,nonsense")


@pytest.mark.parametrize("batch", [1, 5])
def test_the_baseline_claims_exactly_what_there_is(baseline: Baseline, batch: int) -> None:
    baseline.start("g")
    sent: list[bytes] = []
    received: list[bytes] = []
    for available in (0, 1, batch - 1, batch, batch + 1, 2 * batch):
        messages = [b"%d" % (len(sent) + number) for number in range(available)]
        if messages:
            baseline.append(messages)
        sent += messages
        while claimed := baseline.claim("g", batch):
            assert len(claimed) <= batch
            received += [payload for _, payload, _ in claimed]
    assert received == sent


def test_figures_are_of_all_turns_together() -> None:
    found = figures(
        [Slice(100, 1.0, [0.001] * 97 + [0.5], 1000), Slice(300, 1.0, [0.002, 0.5], 3000)]
    )
    assert found.p95_ms == 1.0
    assert (found.rate, found.p50_ms, found.p99_ms) == (200, 1.0, 500.0)
    assert found.wal_bytes_per_message == 10


def test_a_ratio_is_the_median_of_neighbouring_turns() -> None:
    ours = [Slice(n, 1.0, []) for n in (200, 20, 900)]
    theirs = [Slice(n, 1.0, []) for n in (100, 10, 100)]
    assert ratio(ours, theirs) == 2


def test_a_result_is_ok_or_below_its_target() -> None:
    assert Row("c", "x", 3.0, target=Target(at_least=3)).verdict == "ok"
    assert Row("c", "x", 2.9, target=Target(at_least=3)).verdict == "below"
    assert Row("c", "x", 1.3, target=Target(at_most=1.2)).verdict == "below"
    assert Row("c", "x", 1.3).verdict == ""


def test_messages_are_of_one_size_and_come_again_the_same() -> None:
    messages = make_messages(50, size=100)
    assert {len(message) for message in messages} == {100}
    assert len(set(messages)) == 50
    assert make_messages(50, size=100) == messages


def test_the_least_function_numbers_what_its_reader_finds(dsn: str, baseline: Baseline) -> None:
    messages = make_messages(3, size=10)
    with closing(Least(dsn)) as least:
        for _ in range(3):
            least.append(pack(messages))
        first, second, third = least.read(0, 2) + least.read(6, 2)
        assert [part.offsets for part in (first, second, third)] == [
            [1, 2, 3],
            [4, 5, 6],
            [7, 8, 9],
        ]
        assert third.values == messages
        least.commit(9)
