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
    """Tests that start a JVM can be left out: ``-m "not spark"``."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
