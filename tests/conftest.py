"""The fixtures of every test, one plugin per kind."""

from __future__ import annotations

import pytest

pytest_plugins = [
    "tests.fixtures.opensearch",
    "tests.fixtures.pooler",
    "tests.fixtures.postgres",
    "tests.fixtures.programs",
    "tests.fixtures.proxy",
    "tests.fixtures.redis",
    "tests.fixtures.s3",
    "tests.fixtures.spark",
    "tests.fixtures.standby",
    "tests.fixtures.stores",
    "tests.fixtures.web",
]


SERVERS = {"server", "own_server", "home"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what speaks to a server, and what starts a JVM: its first test waits for the start.

    Those with a JVM come before all others, and first of them what is given most time: so they stay
    with one process, which needs one session for them, and at the end there are short ones for
    every process.
    """
    for item in items:
        used = set(getattr(item, "fixturenames", ()))
        if used & SERVERS:
            item.add_marker(pytest.mark.server)
        if "spark" in used:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
    items.sort(key=_time_with_a_jvm, reverse=True)


def _time_with_a_jvm(item: pytest.Item) -> float:
    """The seconds that a test with a JVM may take; none for others."""
    given = item.get_closest_marker("timeout")
    return given.args[0] if item.get_closest_marker("spark") and given else 0
