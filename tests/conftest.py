"""The fixtures of every test, one plugin per kind."""

pytest_plugins = [
    "tests.fixtures.opensearch",
    "tests.fixtures.postgres",
    "tests.fixtures.programs",
    "tests.fixtures.proxy",
    "tests.fixtures.redis",
    "tests.fixtures.spark",
    "tests.fixtures.stores",
]
