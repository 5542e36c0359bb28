"""The helpers that tests stand on: waiting, cutting the network, leading two sessions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING

import psycopg
import pytest

from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.postgres import TwoSessions
    from tests.fixtures.proxy import Proxy


def counts_to(end: int) -> Callable[[], int]:
    calls: list[None] = []

    def count() -> int:
        calls.append(None)
        assert len(calls) >= end
        return len(calls)

    return count


def test_eventually_waits_until_the_assertion_holds_and_returns_its_answer() -> None:
    assert eventually(counts_to(4)) == 4


def test_eventually_raises_the_last_failure_when_time_is_over() -> None:
    with pytest.raises(KeyError, match="not yet"):
        eventually(lambda: {}["not yet"], 0.05, also=(KeyError,))


def test_eventually_takes_false_for_a_failure() -> None:
    with pytest.raises(AssertionError, match="stayed false"):
        eventually(lambda: 1 > 2, 0.05)


def test_eventually_takes_false_for_a_failure_in_optimised_python_too() -> None:
    code = "from trunkline.testing import eventually; eventually(lambda: False, timeout=0.01)"
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True)
    assert "AssertionError: the condition stayed false" in done.stderr


def test_eventually_lets_other_errors_through_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        eventually(lambda: 1 / 0)


async def test_eventually_is_awaited_in_async_code() -> None:
    async def check() -> str:
        count()
        return "async"

    count = counts_to(3)
    assert await eventually(check) == "async"
    assert await eventually(counts_to(3)) == 3


async def test_eventually_lets_other_tasks_run_while_it_waits() -> None:
    seen: list[int] = []
    asyncio.get_running_loop().call_later(0.01, seen.append, 1)

    await eventually(lambda: seen == [1])


def test_a_proxy_cuts_refuses_and_resumes(bare_dsn: str, proxy: Callable[[str], Proxy]) -> None:
    line = proxy(bare_dsn)
    with psycopg.connect(line.dsn) as connection:
        connection.execute("select repeat('x', 1000000)")
        line.cut()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")

    line.refuse()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(line.dsn)

    line.resume()
    with psycopg.connect(line.dsn) as connection:
        assert connection.execute("select 1").fetchone() == (1,)
        assert line.connections == 1


def test_two_sessions_can_be_seen_waiting_for_each_other(two_sessions: TwoSessions) -> None:
    two_sessions.a.execute("select pg_advisory_xact_lock(1)")
    waiting = two_sessions.later(two_sessions.b, "select pg_advisory_xact_lock(1)")

    two_sessions.blocked_by(two_sessions.a, two_sessions.b)
    two_sessions.a.commit()

    assert waiting.result(10).rowcount == 1


def test_a_session_left_waiting_does_not_hang_the_suite(two_sessions: TwoSessions) -> None:
    two_sessions.a.execute("select pg_advisory_xact_lock(1)")
    two_sessions.later(two_sessions.b, "select pg_advisory_xact_lock(1)")
    two_sessions.blocked_by(two_sessions.a, two_sessions.b)
