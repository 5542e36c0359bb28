"""Commands without the optional packages: each says what to install."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb
from tests.cli.conftest import Start, answer_of

from trunkline.core.errors import Invalid
from trunkline.core.extras import PACKAGES, insist_on, missing_package, needed_for

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

# numpy stays: libraries look it up in sys.modules, where None would mislead them.
OPTIONAL = [name for names in PACKAGES.values() for name in names if name != "numpy"]
BLOCKED = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"

EVERY_COMMAND = (
    BLOCKED
    + """
import contextlib, io, json, signal
from trunkline.cli.main import main, tree

def leaves(command, path=()):
    for name, found in getattr(command, "commands", {}).items():
        yield from leaves(found, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command

def needed(command):
    for option in command.params:
        if option.required:
            yield from ["1"] if option.param_type_name == "argument" else [option.opts[0], "1"]

said = {}
for path, command in leaves(tree()):
    if path == ("demo",):
        continue
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.alarm(3)
    out = io.StringIO()
    with contextlib.redirect_stderr(out), contextlib.redirect_stdout(io.StringIO()):
        code = main([*path, *needed(command)])
    signal.alarm(0)
    said[" ".join(path)] = [code, out.getvalue()]
print(json.dumps(said))
"""
)


@pytest.fixture
def without_extras(tmp_path: Path) -> dict[str, str]:
    """The environment of a program that cannot import any optional package."""
    (tmp_path / "sitecustomize.py").write_text(BLOCKED)
    return {"PYTHONPATH": str(tmp_path)}


@pytest.mark.timeout(300)
def test_no_command_calls_a_missing_package_unexpected(dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_COMMAND],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "TRUNKLINE_DSN": dsn},
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)

    assert len(said) > 80
    for command, (code, text) in said.items():
        assert "defect of Trunkline" not in text, (command, text)
        assert "ModuleNotFoundError" not in text, (command, text)
        if command.startswith("spark"):
            assert code == 2, (command, text)
            assert "pip install 'trunkline[spark]'" in text
    assert "pip install 'trunkline[gateway]'" in said["serve"][1]


SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("broker", "receive", "--port", "0", "--secret", SECRET), "webhooks"),
        (("spark", "sync", "lake", "--to", "table:x", "--remote", "sc://x"), "spark"),
        (("spark", "sync", "lake", "--to", "table:x", "--dry-run"), "spark"),
    ],
)
def test_a_command_names_the_extra_it_needs(
    dsn: str,
    start: Start,
    without_extras: dict[str, str],
    sql: psycopg.Connection[Any],
    words: tuple[str, ...],
    extra: str,
) -> None:
    sql.execute("select trunkline.tube_ensure('lake')")

    answer = answer_of(start(*words, TRUNKLINE_DSN=dsn, **without_extras))

    assert answer.code == 2, answer.err
    assert f"pip install 'trunkline[{extra}]'" in answer.err
    assert len(answer.err.splitlines()) < 4


@pytest.mark.timeout(180)
def test_the_demo_leaves_out_what_is_not_installed(
    dsn: str, start: Start, without_extras: dict[str, str], sql: psycopg.Connection[Any]
) -> None:
    sql.execute(
        "select trunkline.config_set('lease.ttl', '1 second'),"
        " trunkline.config_set('broker.webhook_private', 'true')"
    )

    words = ("demo", "--seconds", "1", "--dsn", dsn)
    answer = answer_of(start(*words, **without_extras), within=120)

    assert answer.code == 0, answer.err
    assert "Spark is left out: the lake needs the package" in answer.err
    assert "The webhook is left out: the webhook needs the package" in answer.err
    claims = {row["claim"] for row in answer.rows}
    assert "dead letters" in claims
    assert "orders in the lake" not in claims
    assert "wait for Spark" not in answer.err


def test_a_missing_postgres_is_answered_with_the_extra(tmp_path: Path, start: Start) -> None:
    answer = answer_of(
        start("log", "list", TRUNKLINE_HOME=str(tmp_path), TRUNKLINE_PG_BIN=str(tmp_path))
    )

    assert answer.code == 1
    assert "pip install 'trunkline[embedded]'" in answer.err


@pytest.mark.parametrize("kind", ["redis", "opensearch"])
def test_a_worker_names_the_extra_of_its_downstream(
    dsn: str,
    start: Start,
    without_extras: dict[str, str],
    sql: psycopg.Connection[Any],
    kind: str,
) -> None:
    sql.execute("select trunkline.tube_ensure('lake')")
    options = Jsonb({"url": "http://127.0.0.1:1/", "index": "i"} if kind == "opensearch" else {})
    sql.execute("select trunkline.tube_downstream('lake', %s, %s)", [kind, options])

    answer = answer_of(start("tube", "worker", "lake", TRUNKLINE_DSN=dsn, **without_extras))

    assert answer.code == 2, answer.err
    assert f"downstream {kind} needs the package" in answer.err
    assert f"pip install 'trunkline[{kind}]'" in answer.err


def test_services_log_the_extra_that_webhooks_need(
    dsn: str, start: Start, without_extras: dict[str, str], sql: psycopg.Connection[Any]
) -> None:
    sql.execute(
        "select trunkline.config_set('broker.webhook_private', 'true'),"
        " trunkline.broker_webhook_add('shop', 'http://127.0.0.1:1/', '{}')"
    )

    process = start("up", TRUNKLINE_DSN=dsn, **without_extras)
    assert process.stderr is not None
    line = next(line for line in process.stderr if "webhooks needs" in line)

    assert "pip install 'trunkline[webhooks]'" in line
    assert "Traceback" not in line


def test_an_old_package_is_named_with_its_version() -> None:
    error = ModuleNotFoundError("No module named 'psycopg.x'", name="psycopg.x")

    found = missing_package(error, "this command")

    assert found is not None
    assert "needs the package psycopg in another version than " in found.message


def test_a_missing_module_of_trunkline_is_not_a_missing_package() -> None:
    with pytest.raises(ModuleNotFoundError), needed_for("a test"):
        raise ModuleNotFoundError(name="trunkline.nothing")


def test_insisting_on_an_extra_names_the_first_missing_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)

    with pytest.raises(Invalid, match=r"this needs the package redis.*trunkline\[redis\]"):
        insist_on("redis", "this")
