"""The tree of commands, its exit codes, and what becomes of errors."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo
from tests.cli.conftest import PROGRAM, Answer, Cli, Start, answer_of

from trunkline.cli import suggesting
from trunkline.cli.main import main, tree
from trunkline.core.errors import Unavailable
from trunkline.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

UNREACHABLE = "postgresql://me:s3cret@127.0.0.1:1/shop"


@pytest.fixture
def dsn(swept_dsn: str) -> str:
    return swept_dsn


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from commands(inner, (*path, name))


ALL = dict(commands(tree()))
LEAVES = {path: found for path, found in ALL.items() if not hasattr(found, "commands")}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_helps(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Usage: " in shown
    _, example = " ".join(shown.split()).rsplit("Example: ", 1)
    assert " ".join(("trunkline", *path)) in example
    assert "…" not in shown
    assert "<bool>" not in shown
    assert "{" not in shown.split("Usage: ")[1].splitlines()[0]


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_command_has_one_line_of_help_and_an_example_of_itself(path: tuple[str, ...]) -> None:
    found = LEAVES[path]
    assert found.help
    assert "\n" not in found.help.strip()
    assert found.help.strip().endswith(".")
    assert f"trunkline {' '.join(path)}" in found.epilog
    names = {name for option in found.params for name in option.opts}
    assert {"--dsn", "--instance", "--debug"} <= names


def test_every_command_that_prints_rows_has_all_formats() -> None:
    formats = {"--json", "--nl", "--csv", "--table"}
    silent = set()
    for path, found in LEAVES.items():
        names = {name for option in found.params for name in option.opts} & formats
        assert names in (set(), formats), path
        if not names and path[0] in {"db", "log", "up", "doctor", "demo"}:
            silent.add(" ".join(path))
    assert silent == {
        "db psql",
        "db restored",
        "db sql",
        "db uninstall",
        "log dead discard",
        "log dead retry",
        "log delete",
        "log group-delete",
        "up",
    }


def test_a_short_option_means_the_same_everywhere() -> None:
    meant: dict[str, set[str]] = {}
    for found in LEAVES.values():
        for option in found.params:
            for short in set(option.opts) & {"-n", "-g", "-p", "-k", "-f"}:
                meant.setdefault(short, set()).add(option.name)
    assert meant == {
        "-n": {"limit"},
        "-g": {"group"},
        "-p": {"partition"},
        "-k": {"key"},
        "-f": {"file"},
    }


def test_the_program_starts_without_what_only_commands_need() -> None:
    code = "import sys, trunkline.cli.main; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"psycopg", "pydantic", "structlog", "zstandard", "pyarrow", "rich.table"}


def test_control_c_while_it_starts_shows_no_traceback(tmp_path: Path) -> None:
    slow = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
    (tmp_path / "typer.py").write_text(slow)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "trunkline", "--version"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_control_c_is_quiet_before_the_command_is_known(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("trunkline.cli.main.tree", interrupted)
    assert cli("log", "list") == Answer(130, "", "")


@pytest.mark.parametrize("capability", ["log", "broker", "spark"])
def test_a_bench_refuses_what_it_cannot_measure_before_it_starts_anything(
    cli: Cli, capability: str
) -> None:
    answer = cli(capability, "bench", "--only", "nonsense", "--dsn", UNREACHABLE)
    assert answer.code == 2
    assert answer.err.startswith("error: there is no cell 'nonsense'.\n hint: There are: ")


def test_it_tells_its_version(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capfd.readouterr().out == f"{__version__}\n"


def test_a_pipe_gets_json_and_a_terminal_a_table(cli: Cli, start: Start) -> None:
    cli("log", "create", "orders")
    piped = answer_of(start("log", "list"))
    assert piped.rows[0]["topic"] == "orders"
    terminal, end = pty.openpty()
    process = start("log", "list", stdout=end)
    os.close(end)
    process.wait(timeout=30)
    shown = os.read(terminal, 10_000).decode()
    os.close(terminal)
    assert "─" in shown
    assert "\x1b[" in shown
    assert "{" not in shown


@pytest.mark.parametrize(
    "line", ["log list", "log groups", "log create t --retention 2d", "doctor"]
)
def test_a_server_may_write_times_in_any_style(cli: Cli, dsn: str, line: str) -> None:
    cli("log", "create", "orders")
    other = make_conninfo(dsn, options="-c datestyle=German -c intervalstyle=iso_8601")
    assert cli(*line.split(), "--dsn", other) == cli(*line.split())


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_text_is_unicode_whatever_encoding_the_environment_names(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    assert cli("log", "create", "orders").rows["topic"] == "orders"
    assert "got 'kept-€'" in cli("log", "create", "kept-€").err
    assert cli("broker", "publish", "orders", '{"paid": "5 €"}').code == 0
    assert cli("doctor").rows


def test_nothing_but_data_goes_to_standard_output(cli: Cli) -> None:
    answer = cli("log", "create", "orders", "--table")
    assert "\x1b" not in answer.out
    assert answer.err == ""


def test_a_database_may_be_named_before_or_after_the_command(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, dsn: str
) -> None:
    monkeypatch.setenv("TRUNKLINE_DSN", UNREACHABLE)
    assert cli("--dsn", dsn, "log", "list").code == 0
    assert cli("log", "list", "--dsn", dsn).code == 0
    assert cli("--dsn", UNREACHABLE, "log", "list", "--dsn", dsn).code == 0


EXIT_CODES = (
    ("log list", 0),
    (f"log list --dsn {UNREACHABLE}", 1),
    ("log trim orders --before 9", 2),
    ("log create orders --partitions 0", 2),
    ("log create bad/name", 2),
    ("log list --json --csv", 2),
    ("log list --nonsense", 2),
    ("log nonsense", 2),
    ("log list --dsn mysql://host/db", 2),
    ("log list --dsn host=x --instance y", 2),
    ("log read orders --from 1 --last 2", 2),
    ("log read orders --raw --json", 2),
    ("log read orders --raw --print key", 2),
    ("log consume orders --group g --follow --wait 1", 2),
    ("log append orders one --file lines", 2),
    ("db config get lease.ttl --raw --nl", 2),
    ("broker schedule --every 5s", 2),
    ("broker watch t --no-insert --no-update --no-delete --no-truncate", 2),
    ("log read nothing", 3),
    ("log read orders --partition 7", 3),
    ("log lag --group nobody", 3),
    ("db config get no.such", 3),
    ("log create orders --partitions 3", 4),
)


def test_the_exit_code_tells_what_happened_and_standard_error_why(cli: Cli) -> None:
    assert cli("log", "create", "orders").code == 0
    for words, code in EXIT_CODES:
        answer = cli(*words.split())
        assert answer.code == code, words
        assert "Traceback" not in answer.err
        if code:
            assert answer.out == "", words
            assert answer.err.startswith("error: "), words


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("log create orders --partitions x", '--partitions takes a whole number, got "x".'),
        ("log consume orders --group g --wait x", '--wait takes a number, got "x".'),
        ("log read orders -n 0", "--limit is at least 1, got 0."),
        ("serve --port 99999", "--port is at most 65535, got 99999."),
        ("broker dead discard 17 xx", 'NUMBER takes a whole number, got "xx".'),
    ],
)
def test_what_fits_no_option_is_told_with_what_came(
    capfd: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    assert main(line.split()) == 2
    command = line.split(" -")[0].removesuffix(" orders")
    told = capfd.readouterr().err.splitlines()
    assert told[0] == f"error: {said}"
    assert told[1].startswith(f" hint: Try: trunkline {command.removesuffix(' 17 xx')}")


def test_what_is_no_event_is_told_before_anybody_is_asked(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["why", "abc"]) == 2
    assert capfd.readouterr().err.startswith("error: event_id is the number of an event, or ev ")


@pytest.mark.parametrize("option", ["--dsn", "--instance"])
def test_a_variable_that_is_not_set_names_no_database(
    capfd: pytest.CaptureFixture[str], option: str
) -> None:
    for words in ([option, "", "log", "list"], ["log", "list", option, " "]):
        assert main(words) == 2
        assert f"error: {option} is empty.\n hint: Is the variable set" in capfd.readouterr().err


def test_a_wrong_dsn_is_told_quickly_and_without_its_password(start: Start) -> None:
    answer = answer_of(start("log", "consume", "orders", "--group", "g", "--dsn", UNREACHABLE))
    assert answer.code == 1
    assert answer.err.startswith("error: ")
    assert "refused" in answer.err
    assert "hint: " in answer.err
    assert "Traceback" not in answer.err
    assert "s3cret" not in answer.err


def test_a_dsn_that_cannot_be_read_is_told_without_its_password(cli: Cli) -> None:
    answer = cli("log", "list", "--dsn", "postgresql://me:s3c ret@[bad/x")
    assert answer.code == 2
    assert "s3c" not in answer.err


def test_a_missing_schema_is_told_with_the_way_to_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, bare_dsn: str
) -> None:
    monkeypatch.setenv("TRUNKLINE_DSN", bare_dsn)
    for words in (["log", "list"], ["log", "read", "orders"]):
        answer = cli(*words)
        assert answer.code == 1
        assert "trunkline db install" in answer.err
        assert "install=True" not in answer.err


@pytest.fixture
def stranger(sql: psycopg.Connection[Any]) -> Iterator[str]:
    """A role without any right."""
    name = f"stranger_{uuid4().hex}"
    sql.execute(f"create role {name} login")
    yield name
    sql.execute(f"drop role {name}")


def test_who_lacks_a_right_is_told_by_name(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, dsn: str, stranger: str
) -> None:
    monkeypatch.setenv("TRUNKLINE_DSN", make_conninfo(dsn, user=stranger))
    for words in (["log", "list"], ["log", "read", "orders"]):
        answer = cli(*words)
        assert answer.code == 1
        assert f'Grant trunkline_reader, _writer or _admin to "{stranger}".' in answer.err
    answer = cli("db", "install")
    assert f'You are connected as "{stranger}". The owner of the schema may' in answer.err


def test_debug_shows_where_an_error_comes_from(cli: Cli) -> None:
    with pytest.raises(Unavailable):
        cli("log", "list", "--debug", "--dsn", UNREACHABLE)


def test_hints_speak_of_commands_not_of_functions(cli: Cli) -> None:
    for words, command in (
        ("log describe nothing", "trunkline log create"),
        ("broker dead show 17", "trunkline broker dead list"),
        ("broker webhook pause 17", "trunkline broker webhook list"),
    ):
        answer = cli(*words.split())
        assert command in answer.err
        assert "()" not in answer.err


def test_hints_speak_of_options_not_of_arguments(cli: Cli) -> None:
    cli("log", "create", "plain")
    answer = cli("log", "compact", "plain")
    assert "Create a topic with --compact." in answer.err


def test_a_function_that_is_no_command_keeps_its_name_in_a_hint(cli: Cli) -> None:
    cli("broker", "subscribe", "billing", "{}")
    answer = cli("broker", "handler-delete", "billing", "nothing", "--yes")
    assert "made by broker_join(), or by trunkline broker subscribe with" in answer.err


def test_a_reader_that_leaves_early_is_no_error_worth_a_word(
    cli: Cli, start: Start, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number:0100}\n" for number in range(3_000)))
    cli("log", "create", "numbers")
    cli("log", "append", "numbers", "--file", str(lines))
    reading = start("log", "read", "numbers", "--nl")
    assert reading.stdout is not None
    assert reading.stdout.readline().startswith("{")
    reading.stdout.close()
    reading.wait(timeout=30)
    assert reading.stderr is not None
    assert reading.stderr.read() == ""


def test_output_that_cannot_be_written_is_told_and_what_was_not_printed_is_not_committed(
    cli: Cli, start: Start, tmp_path: Path
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\n")
    cli("log", "create", "full")
    cli("log", "append", "full", "--file", str(lines))
    with Path("/dev/full").open("w") as full:
        for words in ("log list", "log consume full --group g", "--help"):
            answer = answer_of(start(*words.split(), stdout=full))
            assert answer.code == 1
            assert answer.err == (
                "error: the output cannot be written: No space left on device.\n"
            ), words
    assert cli("log", "lag", "full").rows[0]["lag"] == 1


def test_a_program_may_be_started_without_standard_output_or_error(cli: Cli) -> None:
    for closed in (">&-", "2>&-", ">&- 2>&-"):
        command = f"exec {PROGRAM} log list {closed}"
        assert subprocess.run(["bash", "-c", command], check=False).returncode == 0, closed


def test_nothing_is_consumed_when_standard_output_is_closed(cli: Cli, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\n")
    cli("log", "create", "unseen")
    cli("log", "append", "unseen", "--file", str(lines))
    command = f"exec {PROGRAM} log consume unseen --group g >&-"
    answer = subprocess.run(["bash", "-c", command], check=False, stderr=subprocess.PIPE, text=True)
    assert (answer.returncode, answer.stderr.splitlines()) == (
        2,
        [
            "error: standard output is closed.",
            " hint: What is consumed is done: let it be printed somewhere, if only to /dev/null.",
        ],
    )
    assert cli("log", "groups", "unseen").rows == []


DESTROYING = [
    "db uninstall",
    "log delete full",
    "log trim full --before latest",
    "log group-delete full --group g",
    "log dead discard full 1",
    "log dead discard full --group g",
    "broker group-delete g",
    "broker handler-delete g h",
    "broker dead discard 1",
    "broker dead discard --group g --handler h",
    "broker webhook remove 1",
]


@pytest.mark.parametrize("line", DESTROYING)
def test_what_cannot_be_undone_is_not_done_by_a_script_that_does_not_say_yes(
    cli: Cli, sql: psycopg.Connection[Any], line: str
) -> None:
    cli("log", "create", "full")
    sql.execute("select trunkline.log_append_text('full', 'a')")
    sql.execute("select from trunkline.log_claim('full', 'g', 0)")
    answer = cli(*line.split())
    assert answer.code == 2
    assert answer.err == (
        "error: this cannot be undone, and there is no terminal to ask at.\n hint: Add --yes.\n"
    )
    assert [row["first_offset"] for row in cli("log", "describe", "full").rows] == [1]
    assert [row["group_name"] for row in cli("log", "lag", "full").rows] == ["g"]


@pytest.mark.parametrize(("typed", "code", "left"), [("n", 1, ["full"]), ("y", 0, [])])
def test_a_person_is_asked_before_something_is_destroyed(
    cli: Cli, dsn: str, typed: str, code: int, left: list[str]
) -> None:
    cli("log", "create", "full")
    child, terminal = pty.fork()
    if child == 0:
        os.execv(PROGRAM, ["trunkline", "log", "delete", "full", "--dsn", dsn])
    shown = b""
    while not shown.endswith(b"[y/N]: "):
        shown += os.read(terminal, 1000)
    assert b"Delete full with all its messages?" in shown
    os.write(terminal, f"{typed}\n".encode())
    with suppress(OSError):  # Linux tells the end of a terminal as an error
        while os.read(terminal, 1000):
            pass
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == code
    os.close(terminal)
    assert [row["topic"] for row in cli("log", "list").rows] == left


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("log lst", "log list"),
        ("lgo list", "log"),
        ("broker sub", "broker subscribe"),
        ("kv instances", "kv instance"),
        ("log produce t", "log append"),
        ("kv set a b", "kv put"),
        ("tail orders", "log consume"),
        ("topics", "log list"),
        ("psql", "db psql"),
        ("install", "db install"),
        ("status", "doctor"),
        ("version", "--version"),
    ],
)
def test_a_command_that_does_not_exist_is_answered_with_those_that_do(
    cli: Cli, words: str, meant: str
) -> None:
    answer = cli(*words.split())
    assert answer.code == 2
    said = answer.err.splitlines()[0]
    assert "there is no command" in said
    assert f"trunkline {meant}" in re.split("[:,?] ?", said.split("Did you mean")[1])
    assert "--help" in answer.err


def test_every_suggested_command_exists() -> None:
    for word, paths in suggesting._ELSEWHERE.items():
        assert word not in tree().commands
        for path in paths:
            assert path == "--version" or tuple(path.split()) in ALL, (word, path)


def test_nothing_is_suggested_for_what_resembles_nothing(cli: Cli) -> None:
    assert cli("xyzzy").err.splitlines()[0] == 'error: there is no command "xyzzy".'
