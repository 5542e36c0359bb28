"""Cell `pinned`: a snapshot is held open, and nothing gets slower.

An open snapshot keeps vacuum from removing dead rows, so a design that updates a row per message
walks ever longer chains of them. Ours leaves no dead row where messages pass.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg

from trunkline.core import lease
from trunkline.log import calls
from trunkline.log.batches import pack
from trunkline.log.bench.measure import Figures, Row, Target, percentile
from trunkline.log.bench.messages import make_messages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from trunkline.log.bench.lab import Lab

_FLAT = Target(at_most=1.2)
_NONE = Target(at_most=0)
_CHUNK = 250  # rounds of one side before it is the other's turn
_UPKEEP_EVERY = 5.0  # seconds
_GROUP = "pinned"
_BASELINE_MOST = 50_000  # rounds; it gets too slow for more
_DEAD = """
  select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables
   where schemaname = %s and (relname ~ '^(log_segment_[0-9]+|cursor)' or schemaname = 'bench_seed')
"""


async def pinned(lab: Lab) -> AsyncGenerator[Row]:
    """Rounds of append, fetch, commit, claim and acknowledge under an open snapshot."""
    rounds = 1_000 if lab.quick else 1_000_000 if lab.full else 20_000
    ours, baseline = _Ours(lab), _Baseline(lab)
    with _snapshot_held(lab.dsn):
        done = 0
        while done < rounds:
            ours.rounds(_CHUNK)
            if done < _BASELINE_MOST:
                baseline.rounds(_CHUNK)
            done += _CHUNK
        dead = {name: _dead(lab, name) for name in ("trunkline", "bench_seed")}
    for verb, times in ours.times.items():
        yield _row(f"{verb}, last of {rounds} rounds vs first", times, _FLAT)
    yield Row(
        "pinned",
        f"dead rows where messages pass, after {rounds} rounds",
        dead["trunkline"],
        unit="rows",
        target=_NONE,
        note=f"baseline: {dead['bench_seed']}",
        details=dead,
    )
    for verb, times in baseline.times.items():
        yield _row(f"baseline: {verb}, last rounds vs first", times, None)


def _row(case: str, times: list[float], target: Target | None) -> Row:
    window = max(1, min(2_000, len(times) // 10))
    curve = [
        percentile(sorted(times[begin : begin + window]), 0.5)
        for begin in range(0, len(times) - window + 1, max(window, len(times) // 10))
    ]
    first, last = times[window : 2 * window], times[-window:]
    return Row(
        "pinned",
        case,
        round(_figures(last).p50_ms / _figures(first).p50_ms, 2),
        target=target,
        ours=_figures(last),
        baseline=_figures(first),
        note="the baseline here is the same call at the start",
        details={"p50_ms": curve},
    )


def _figures(times: list[float]) -> Figures:
    ascending = sorted(times)
    return Figures(
        rate=round(len(times) / sum(times), 1),
        p50_ms=percentile(ascending, 0.50),
        p99_ms=percentile(ascending, 0.99),
    )


class _Ours:
    def __init__(self, lab: Lab):
        self._lab = lab
        self._topic = lab.create("pinned")
        self._process = uuid4()
        self._batch = pack(make_messages(1, size=100))
        self._upkeep_at = 0.0
        self._offset = 0
        self.times: dict[str, list[float]] = defaultdict(list)
        self._upkeep()
        self._epoch = lab.db.run(calls.join(self._topic, _GROUP, self._process))[0].epoch

    def rounds(self, n: int) -> None:
        topic, shared = self._topic, f"{_GROUP}-shared"
        for _ in range(n):
            if time.monotonic() > self._upkeep_at:
                self._upkeep()
            self._timed("append", calls.append_batch(topic, 0, self._batch))
            self._offset += 1
            self._timed("fetch", calls.fetch(topic, 0, self._offset))
            self._timed("commit", calls.commit(topic, _GROUP, 0, self._epoch, self._offset))
            (claim,) = self._timed(
                "claim", calls.claim(topic, shared, 0, deadline=timedelta(minutes=1))
            )
            self._timed("ack", calls.ack(topic, shared, 0, claim.claim))

    def _timed(self, verb: str, call: Any) -> Any:
        begin = time.perf_counter()
        answer = self._lab.db.run(call)
        self.times[verb].append(time.perf_counter() - begin)
        return answer

    def _upkeep(self) -> None:
        """What the process and the service do in the background, outside of the clock."""
        self._lab.db.run(lease.renew(self._process, "bench"))
        self._lab.maintain()
        self._upkeep_at = time.monotonic() + _UPKEEP_EVERY


class _Baseline:
    def __init__(self, lab: Lab):
        self._baseline = lab.baseline
        self._messages = make_messages(1, size=100)
        self._baseline.start(_GROUP)
        self.times: dict[str, list[float]] = defaultdict(list)

    def rounds(self, n: int) -> None:
        for _ in range(n):
            self._timed("append", lambda: self._baseline.append(self._messages))
            self._timed("claim and read", lambda: self._baseline.claim(_GROUP, 100))

    def _timed(self, verb: str, work: Callable[[], object]) -> None:
        begin = time.perf_counter()
        work()
        self.times[verb].append(time.perf_counter() - begin)


@contextmanager
def _snapshot_held(dsn: str) -> Iterator[None]:
    with psycopg.connect(dsn) as holder:
        holder.execute("set transaction isolation level repeatable read, read only")
        holder.execute("select 1")
        yield


def _dead(lab: Lab, schema: str) -> int:
    return int(lab.ask(_DEAD, schema))
