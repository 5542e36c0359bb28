"""The fixtures of every test, one plugin per kind."""

pytest_plugins = [
    "tests.fixtures.postgres",
    "tests.fixtures.programs",
    "tests.fixtures.proxy",
]
