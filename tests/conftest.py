"""The fixtures of every test, one plugin per kind."""

from __future__ import annotations

import pytest

pytest_plugins = [
    "tests.fixtures.opensearch",
    "tests.fixtures.postgres",
    "tests.fixtures.programs",
    "tests.fixtures.proxy",
    "tests.fixtures.redis",
    "tests.fixtures.spark",
    "tests.fixtures.stores",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start a JVM can be left out: ``-m "not spark"``; the first waits for its start.

    They come before all others: so they stay with one process, which needs one session for them,
    and at the end there are short ones for every process.
    """
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
