"""Cell `pinned`: a snapshot is held open, and nothing gets slower.

An open snapshot keeps vacuum from removing dead rows, so a design that updates a row per message
walks ever longer chains of them. Ours leaves no dead row where messages pass.

No commit waits for the disk here: that would take as long at the end as at the start, and hide
what grows. A run takes minutes, in which the machine itself may get slower or faster; so a call
that has no history to walk is timed in every round, and what changed for it is taken out of the
rest.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo

from trunkline.core import lease
from trunkline.core.db import Db
from trunkline.log import calls, group_calls
from trunkline.log.batches import pack
from trunkline.log.bench.baseline import Baseline
from trunkline.log.bench.measure import Figures, Row, Target, percentile
from trunkline.log.bench.messages import make_messages

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from trunkline.log.bench.lab import Lab

_FLAT = Target(at_most=1.2)
_NONE = Target(at_most=0)
_CHUNK = 100  # rounds of one side before it is the other's turn
_UPKEEP_EVERY = 5.0  # seconds
_GROUP = "pinned"
_BASELINE_MOST = 20_000  # rounds; it gets too slow for more
_CONTROL = "settings"
_POINTS = 20  # of a curve
_DEAD = """
  select coalesce(sum(n_dead_tup), 0) from pg_stat_user_tables
   where schemaname = %s and relname ~ %s
"""


async def pinned(lab: Lab) -> AsyncGenerator[Row]:
    """Rounds of append, fetch, commit, claim and acknowledge under an open snapshot.

    In the long form that is a million appends, commits and claims in all.
    """
    rounds = 200 if lab.quick else 333_400 if lab.full else 20_000
    dsn = make_conninfo(lab.dsn, options="-c synchronous_commit=off")
    with closing(Db(dsn)) as db, closing(Baseline(dsn)) as plain, _snapshot_held(lab.dsn):
        ours, baseline = _Ours(lab, db), _Baseline(plain)
        for done in range(0, rounds, _CHUNK):
            ours.rounds(_CHUNK)
            if done < _BASELINE_MOST:
                baseline.rounds(_CHUNK)
        dead = _dead(lab, "trunkline", r"^(log_segment|cursor)_\d+$")
        dead_baseline = _dead(lab, "bench_seed", "")
    drift = _drift(ours.times.pop(_CONTROL))
    for verb, times in ours.times.items():
        yield _row(f"{verb}, the last of {rounds} rounds vs the first", times, drift, _FLAT)
    yield Row(
        "pinned",
        f"dead rows where messages pass, after {rounds} rounds",
        dead,
        unit="rows",
        target=_NONE,
        note=f"baseline: {dead_baseline}",
    )
    for verb, times in baseline.times.items():
        yield _row(f"baseline: {verb}, the last of {len(times)} vs the first", times, drift, None)


def _row(case: str, times: list[float], drift: float, target: Target | None) -> Row:
    first, last = _windows(times)
    return Row(
        "pinned",
        case,
        round(_drift(times) / drift, 2),
        target=target,
        ours=_figures(last),
        baseline=_figures(first),
        note="the baseline here is the same call at the start;"
        f" a call without history took {drift:.2f} x",
        details={"curve_ms": _curve(times)},
    )


def _windows(times: list[float]) -> tuple[list[float], list[float]]:
    """The first tenth after some warming up, and the last."""
    size = max(1, min(5_000, len(times) // 10))
    warm = min(size // 2, 500)
    return times[warm : warm + size], times[-size:]


def _drift(times: list[float]) -> float:
    first, last = _windows(times)
    return _figures(last).p50_ms / _figures(first).p50_ms


def _curve(times: list[float]) -> list[float]:
    size = max(1, len(times) // _POINTS)
    return [
        percentile(sorted(times[begin : begin + size]), 0.5) for begin in range(0, len(times), size)
    ]


def _figures(times: list[float]) -> Figures:
    ascending = sorted(times)
    return Figures(
        rate=round(len(times) / sum(times), 1),
        p50_ms=percentile(ascending, 0.50),
        p95_ms=percentile(ascending, 0.95),
        p99_ms=percentile(ascending, 0.99),
    )


class _Timed:
    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)

    def _timed(self, verb: str, work: Callable[[], Any]) -> Any:
        begin = time.perf_counter()
        answer = work()
        self.times[verb].append(time.perf_counter() - begin)
        return answer


class _Ours(_Timed):
    def __init__(self, lab: Lab, db: Db):
        super().__init__()
        self._lab = lab
        self._db = db
        self._topic = lab.create("pinned")
        self._process = uuid4()
        self._batch = pack(make_messages(1, size=100))
        self._offset = 0
        self._upkeep()
        self._epoch = db.run(group_calls.join(self._topic, _GROUP, self._process))[0].epoch

    def rounds(self, n: int) -> None:
        for _ in range(n):
            if time.monotonic() > self._upkeep_at:
                self._upkeep()
            self._round()

    def _round(self) -> None:
        topic, shared = self._topic, f"{_GROUP}-shared"
        self._call("append", self._lab.appending(topic, self._batch))
        self._offset += 1
        self._call("fetch", calls.fetch(topic, 0, self._offset))
        self._call("commit", group_calls.commit(topic, _GROUP, 0, self._epoch, self._offset))
        (claim,) = self._call(
            "claim", group_calls.claim(topic, shared, 0, deadline=timedelta(minutes=1))
        )
        self._call("ack", group_calls.ack(topic, shared, 0, claim.claim))
        self._call(_CONTROL, calls.settings(topic))

    def _call(self, verb: str, call: Any) -> Any:
        return self._timed(verb, lambda: self._db.run(call))

    def _upkeep(self) -> None:
        """What the process and the service do in the background, outside of the clock."""
        self._db.run(lease.renew(self._process, "bench"))
        self._lab.maintain()
        self._upkeep_at = time.monotonic() + _UPKEEP_EVERY


class _Baseline(_Timed):
    def __init__(self, baseline: Baseline):
        super().__init__()
        self._baseline = baseline
        self._messages = make_messages(1, size=100)
        self._baseline.start(_GROUP)

    def rounds(self, n: int) -> None:
        for _ in range(n):
            self._timed("append", lambda: self._baseline.append(self._messages))
            self._timed("claim and read", lambda: self._baseline.claim(_GROUP, 100))


@contextmanager
def _snapshot_held(dsn: str) -> Iterator[None]:
    with psycopg.connect(dsn) as holder:
        holder.execute("set transaction isolation level repeatable read, read only")
        holder.execute("select 1")
        yield


def _dead(lab: Lab, schema: str, tables: str) -> int:
    return int(lab.ask(_DEAD, schema, tables))
