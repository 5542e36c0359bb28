"""``trunkline log append``, ``read`` and ``consume``."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import Cli, Start, answer_of

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg
    from tests.fixtures.proxy import Proxy

    Append = Callable[..., Any]

SOON = 12  # seconds; a call tries for thirty to reach a server that is away


@pytest.fixture
def dsn(swept_dsn: str) -> str:
    return swept_dsn


@pytest.fixture
def wire(dsn: str, proxy: Callable[[str], Proxy]) -> Proxy:
    return proxy(dsn)


@pytest.fixture
def append(cli: Cli, tmp_path: Path) -> Append:
    """Append lines to a topic."""

    def call(topic: str, text: str | bytes, *words: str) -> Any:
        lines = tmp_path / "lines"
        lines.write_bytes(text if isinstance(text, bytes) else text.encode())
        return cli("log", "append", topic, "--file", str(lines), *words)

    cli("log", "create", "orders", "--partitions", "2")
    return call


def test_messages_may_be_named(cli: Cli, append: Append) -> None:
    words = ("log", "append", "orders", "one", "two\nlines", "-p", "0", "-k", "k")
    assert [(row["messages"], row["last_offset"]) for row in cli(*words).rows] == [(2, 2)]
    keyed = ("log", "append", "orders", "k:v", "-p", "0", "--key-separator")
    assert cli(*keyed, ":").code == 0
    assert 'message 1 has no "=" between key and value' in cli(*keyed, "=").err
    read = cli("log", "read", "orders").rows
    assert [(row["key"], row["value"]) for row in read] == [
        ("k", "one"),
        ("k", "two\nlines"),
        ("k", "v"),
    ]


def test_lines_of_standard_input_become_messages(cli: Cli, append: Append, start: Start) -> None:
    process = start("log", "append", "orders", "-p", "1", stdin=subprocess.PIPE)
    answer = answer_of(process, "one\n\nthree")
    assert answer.code == 0
    assert answer.rows == [
        {"topic": "orders", "partition": 1, "messages": 3, "first_offset": 1, "last_offset": 3}
    ]
    assert [row["value"] for row in cli("log", "read", "orders").rows] == ["one", "", "three"]


def test_input_that_cannot_be_read_is_no_empty_input(
    append: Append, start: Start, tmp_path: Path
) -> None:
    with (tmp_path / "only_written").open("wb") as unreadable:
        answer = answer_of(start("log", "append", "orders", stdin=unreadable))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == "error: the input cannot be read: Bad file descriptor.\n"


def test_an_offset_is_read_from_where_it_is_in_some_partition(cli: Cli, append: Append) -> None:
    append("orders", "one\ntwo\nthree\n", "-p", "1")
    words = ("log", "read", "orders", "--from")
    assert [row["value"] for row in cli(*words, "2").rows] == ["two", "three"]
    nowhere = cli(*words, "9")
    assert (nowhere.code, nowhere.out) == (1, "")
    assert "asked for 9" in nowhere.err
    assert "ends at 0" in cli(*words, "2", "--partition", "0").err


def test_a_slow_writer_needs_not_end_for_its_lines_to_arrive(
    cli: Cli, append: Append, start: Start
) -> None:
    process = start("log", "append", "orders", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write("first\n")
    process.stdin.flush()
    wait_until(lambda: len(cli("log", "read", "orders").rows) == 1)
    assert process.poll() is None
    assert answer_of(process, "second\n").rows[0]["messages"] == 1


def test_keys_and_headers_go_along(cli: Cli, append: Append) -> None:
    append("orders", "a:1\nb:2\na:3:3\n", "--key-separator", ":", "--header", "trace=x=y")
    rows = cli("log", "read", "orders", "--print", "key,value,headers").rows
    assert sorted((row["key"], row["value"]) for row in rows) == [
        ("a", "1"),
        ("a", "3:3"),
        ("b", "2"),
    ]
    assert rows[0]["headers"] == {"trace": "x=y"}
    same = append("orders", "x\ny\n", "--key", "one", "--codec", "zstd").rows
    assert [row["messages"] for row in same] == [2]


def test_appends_that_make_no_sense_are_refused(append: Append) -> None:
    for words, code, said in (
        (["--key", "k", "--key-separator", ":"], 2, "two things"),
        (["--key-separator", ":"], 2, 'error: line 2 has no ":"'),
        (["--header", "x"], 2, "name=value"),
        (["--codec", "rar"], 2, "rar"),
        (["--partition", "9"], 3, "partition"),
        (["--file", "/no/such"], 2, "cannot be read"),
    ):
        answer = append("orders", "a:1\nb\n", *words)
        assert answer.code == code
        assert said in answer.err


def test_a_message_that_is_too_large_is_named_by_its_line(cli: Cli, append: Append) -> None:
    cli("db", "config", "set", "log.message_bytes", "10")
    answer = append("orders", "short\n" + "long" * 9 + "\n", "-p", "0")
    assert answer.code == 1
    assert "line 2" in answer.err
    assert answer.rows[0]["messages"] == 1


def test_lines_before_one_that_is_refused_are_stored(cli: Cli, append: Append) -> None:
    answer = append("orders", "a:1\nb:2\nc\nd:4\n", "--key-separator", ":", "-p", "0")
    assert answer.code == 2
    assert 'line 3 has no ":"' in answer.err
    assert answer.rows[0]["messages"] == 2
    assert [row["value"] for row in cli("log", "read", "orders", "-p", "0").rows] == ["1", "2"]


def test_lines_without_keys_are_spread_over_the_partitions(cli: Cli, append: Append) -> None:
    cli("log", "create", "wide", "--partitions", "3")
    rows = append("wide", "".join(f"{n}\n" for n in range(1, 11))).rows
    assert [(row["partition"], row["messages"]) for row in rows] == [(0, 3), (1, 4), (2, 3)]
    third = cli("log", "read", "wide", "--partition", "2").rows
    assert [row["value"] for row in third] == ["2", "5", "8"]


def test_no_lines_are_no_messages(append: Append) -> None:
    assert append("orders", "").rows == []


def test_messages_are_read_from_a_place(cli: Cli, append: Append) -> None:
    append("orders", "".join(f"{n}\n" for n in range(1, 31)), "-p", "0")

    def read(*words: str) -> list[str]:
        rows = cli("log", "read", "orders", "--print", "value", *words).rows
        return [row["value"] for row in rows]

    assert len(read()) == 30
    assert read("--from", "29") == ["29", "30"]
    assert read("--limit", "2") == ["1", "2"]
    assert read("--last", "1") == ["30"]
    assert read("--from", "latest") == []
    assert len(read("--from", "1h ago")) == 30
    assert read("--from", "2100-01-01") == []
    assert cli("log", "read", "orders", "--from", "0").code == 2
    assert cli("log", "read", "orders", "--print", "colour").code == 2


def test_bytes_that_are_no_text_come_out_marked_or_raw(cli: Cli, append: Append) -> None:
    append("orders", b"\xff\xfe\n", "-p", "0")
    assert cli("log", "read", "orders").rows[0]["value"] == {"base64": "//4="}
    assert "base64://4=" in cli("log", "read", "orders", "--csv").out
    assert "base64://4=" in cli("log", "read", "orders", "--table").out


def test_raw_values_can_be_appended_again(append: Append, cli: Cli) -> None:
    append("orders", "one\ntwo\n", "-p", "0")
    assert cli("log", "read", "orders", "--raw").out == "one\ntwo\n"


def test_a_group_consumes_on_from_where_it_stopped(cli: Cli, append: Append) -> None:
    append("orders", "".join(f"{n}\n" for n in range(1, 8)), "-p", "0")

    def consume(*words: str) -> list[str]:
        answer = cli("log", "consume", "orders", "-g", "g", "--wait", "0.1", *words)
        assert answer.code == 0
        return [row["value"] for row in answer.rows]

    assert consume("--limit", "3") == ["1", "2", "3"]
    assert consume("--limit", "1") == ["4"]
    assert consume() == ["5", "6", "7"]
    assert consume() == []


@pytest.mark.parametrize("form", ["--nl", "--raw"])
def test_what_nobody_read_is_not_committed_also_when_output_is_unbuffered(
    cli: Cli, append: Append, start: Start, dsn: str, form: str
) -> None:
    append("orders", "".join(f"{number} {'x' * 1000}\n" for number in range(200)))
    reading, writing = os.pipe()
    words = ("log", "consume", "orders", "--group", f"unread{form}", form, "--limit", "200")
    process = start(*words, "--dsn", dsn, stdout=writing, PYTHONUNBUFFERED="1")
    os.close(writing)
    select.select([reading], [], [], 20)
    os.close(reading)
    assert answer_of(process).code == 1
    groups = cli("log", "groups", "orders", "--group", f"unread{form}").rows
    assert [group["up_to"] for group in groups] == [0, 0]


def test_a_limit_takes_no_message_too_many(cli: Cli, append: Append) -> None:
    for part in ("1\n2\n", "3\n4\n5\n", "6\n7\n"):
        append("orders", part, "-p", "0")
    for mode in ("assigned", "shared"):
        for delivery in ("at-least-once", "at-most-once"):
            way = ("--mode", mode, "--delivery", delivery, "--wait", "0.1")
            words = ("log", "consume", "orders", "-g", f"{mode}-{delivery}", *way)
            first = cli(*words, "--limit", "4").rows
            rest = cli(*words).rows
            assert [row["value"] for row in first] == ["1", "2", "3", "4"]
            assert [row["value"] for row in rest] == ["5", "6", "7"]


def test_a_new_group_may_begin_at_the_end(cli: Cli, append: Append) -> None:
    append("orders", "old\n", "-p", "0")
    words = ("log", "consume", "orders", "-g", "g", "--from", "latest", "--wait", "0.1")
    assert cli(*words).rows == []
    append("orders", "new\n", "-p", "0")
    assert [row["value"] for row in cli(*words).rows] == ["new"]


def test_strange_ways_to_consume_are_refused(cli: Cli, append: Append) -> None:
    assert cli("log", "consume", "orders").code == 2
    assert cli("log", "consume", "orders", "-g", "g", "--mode", "odd").code == 2
    assert cli("log", "consume", "orders", "-g", "g", "--limit", "0").code == 2
    assert cli("log", "consume", "nothing", "-g", "g").code == 3
    cli("log", "consume", "orders", "-g", "g", "--wait", "0")
    assert cli("log", "consume", "orders", "-g", "g", "--mode", "shared").code == 4


@pytest.mark.parametrize("mode", ["assigned", "shared"])
def test_ctrl_c_leaves_the_group_in_good_order(
    cli: Cli, append: Append, start: Start, sql: psycopg.Connection[Any], mode: str
) -> None:
    append("orders", "one\ntwo\n", "-p", "0")
    process = start("log", "consume", "orders", "-g", "g", "--mode", mode, "--follow")
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["value"] == "one"
    wait_until(lambda: cli("log", "lag", "orders").rows[0]["lag"] == 0)
    append("orders", "three\n", "-p", "0")
    assert json.loads(process.stdout.readline())["value"] == "two"
    assert json.loads(process.stdout.readline())["value"] == "three"
    wait_until(lambda: cli("log", "lag", "orders").rows[0]["lag"] == 0)

    ours = "select from trunkline.lease_list() where name like %s"
    assert sql.execute(ours, [f"%:{process.pid}"]).rowcount == 1
    process.send_signal(signal.SIGINT)
    answer = answer_of(process)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert {row["process"] for row in cli("log", "groups", "orders").rows} == {None}
    assert sql.execute(ours, [f"%:{process.pid}"]).rowcount == 0


@pytest.mark.parametrize(
    ("mode", "told"), [("assigned", signal.SIGINT), ("shared", signal.SIGTERM)]
)
def test_whoever_follows_stops_soon_though_the_server_is_away(
    cli: Cli, append: Append, start: Start, wire: Proxy, mode: str, told: signal.Signals
) -> None:
    append("orders", "one\n", "-p", "0")
    words = ("log", "consume", "orders", "-g", "g", "--mode", mode, "--follow", "--raw")
    process = start(*words, "--dsn", wire.dsn)
    assert process.stdout is not None
    assert process.stdout.readline() == "one\n"
    wait_until(lambda: cli("log", "lag", "orders").rows[0]["lag"] == 0)
    wire.refuse()
    process.send_signal(told)
    answer = answer_of(process, within=SOON)
    assert (answer.code, answer.out) == (0, "")
    assert "Traceback" not in answer.err


def test_a_group_that_is_moved_goes_on_from_there(cli: Cli, append: Append, start: Start) -> None:
    append("orders", "one\ntwo\n", "-p", "0")
    words = ("log", "consume", "orders", "-g", "g", "--follow", "--limit", "4", "--raw")
    process = start(*words)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["one\n", "two\n"]
    wait_until(lambda: cli("log", "lag", "orders").rows[0]["lag"] == 0)
    cli("log", "seek", "orders", "--group", "g", "--to", "earliest")
    answer = answer_of(process)
    assert (answer.code, answer.out) == (0, "one\ntwo\n")


def test_where_a_person_looks_it_is_said_that_there_is_nothing(cli: Cli, append: Append) -> None:
    for words in (["read", "orders"], ["consume", "orders", "--group", "g", "--wait", "0"]):
        assert cli("log", *words, "--table").err == "No messages.\n"
        assert cli("log", *words).out == "[]\n"
        assert cli("log", *words, "--nl").err == ""
        assert cli("log", *words, "--raw").err == ""


def test_a_terminal_gets_a_table_that_grows(append: Append, start: Start) -> None:
    append("orders", "one\n", "-p", "0")
    terminal, end = pty.openpty()
    process = start("log", "consume", "orders", "-g", "g", "--follow", stdout=end)
    os.close(end)
    shown = ""
    while "one" not in shown:
        shown += os.read(terminal, 10_000).decode()
    append("orders", "two\n", "-p", "0")
    while "two" not in shown:
        shown += os.read(terminal, 10_000).decode()
    process.send_signal(signal.SIGINT)
    assert answer_of(process).code == 0
    os.close(terminal)
    assert shown.count("offset") == 1
