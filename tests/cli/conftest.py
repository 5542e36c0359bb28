"""The command line, called in this process (`cli`) or started as a process of its own (`start`)."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psycopg
import pytest
from tests.fixtures.postgres import AnyServer, new_database

from trunkline.cli.main import main
from trunkline.core.settings import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = Path(sys.executable).with_name("trunkline")
NAMES = ("TRUNKLINE_DSN", "DATABASE_URL", "TRUNKLINE_HOME", "TRUNKLINE_INSTANCE", *PLACES)


@dataclass(frozen=True)
class Answer:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> Any:
        return json.loads(self.out)


class Cli(Protocol):
    def __call__(self, *words: str) -> Answer: ...


class Start(Protocol):
    def __call__(
        self, *words: str, stdout: Any = ..., stdin: Any = ..., **environment: str
    ) -> subprocess.Popen[str]: ...


@pytest.fixture(autouse=True)
def quiet_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing in the environment or in a file `.env` names a database."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def module_dsn(server: AnyServer, template: str) -> Iterator[str]:
    """One database for the tests of a module, for those that look only at their own topics."""
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture
def swept_dsn(module_dsn: str) -> Iterator[str]:
    """`module_dsn`, without what the test before left there."""
    yield module_dsn
    with psycopg.connect(module_dsn, autocommit=True) as connection:
        connection.execute("select trunkline.log_delete(topic) from trunkline.log_list()")
        connection.execute("select trunkline.config_set(name, null) from trunkline.config_list()")


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], dsn: str) -> Cli:
    """Run a command on the database of this test."""
    monkeypatch.setenv("TRUNKLINE_DSN", dsn)
    return caller(capfd)


def caller(capfd: pytest.CaptureFixture[str]) -> Cli:
    def call(*words: str) -> Answer:
        ours, drivers = logging.getLogger("trunkline"), logging.getLogger("psycopg")
        before = (ours.handlers[:], ours.level, ours.propagate, drivers.level)
        capfd.readouterr()
        try:
            code = main(words)
        finally:
            ours.handlers, ours.level, ours.propagate, drivers.level = before
            ours.setLevel(ours.level)
            drivers.setLevel(drivers.level)
        return Answer(code, *capfd.readouterr())

    return call


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the real program; what still runs at the end is ended."""
    started: list[subprocess.Popen[str]] = []

    def begin(
        *words: str,
        stdout: Any = subprocess.PIPE,
        stdin: Any = subprocess.DEVNULL,
        **environment: str,
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [PROGRAM, *words],
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.fixture
def sql(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the test's own."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def answer_of(
    process: subprocess.Popen[str], given: str | None = None, *, within: float = 30
) -> Answer:
    """Wait for a process to end by itself."""
    out, err = process.communicate(given, timeout=within)
    return Answer(process.returncode, out, err)
