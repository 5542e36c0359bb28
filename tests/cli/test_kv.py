"""``trunkline kv``: what people type, and what they are told."""

from __future__ import annotations

import io
import json
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.conninfo import make_conninfo
from tests.cli.conftest import Cli, Start, answer_of
from tests.fixtures.postgres import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from tests.fixtures.postgres import AnyServer


@pytest.fixture
def west(server: AnyServer, template: str) -> Iterator[str]:
    """The database of a second zone."""
    with new_database(server, template=template) as name:
        yield server.dsn(name)


@pytest.fixture
def parade(cli: Cli, dsn: str, west: str) -> None:
    """Two zones that know of each other; this database is the eastern one."""
    for place, zone in ((dsn, "east"), (west, "west")):
        for name, reached in (("east", dsn), ("west", west)):
            cli("--dsn", place, "kv", "instance", "put", name, "main", reached)
        said = cli("kv", "instance", "here", zone, "main", "--dsn", place)
        assert said.err == f"This database is {zone}/main.\n"


def answers(cli: Cli, *words: str) -> tuple[int, str]:
    answer = cli("kv", *words)
    return answer.code, json.loads(answer.out)["answer"]


def test_a_key_is_put_read_and_deleted(cli: Cli) -> None:
    assert answers(cli, "put", "a", '{"n": 1}') == (0, "INSERT")
    assert answers(cli, "put", "a", "[2]", "--ttl", "1h") == (0, "UPDATE")
    found = cli("kv", "get", "a").rows
    assert found.keys() == {"key", "value", "version", "expires_at"}
    assert found["value"] == [2]
    assert found["expires_at"] is not None
    assert answers(cli, "delete", "a") == (0, "UPDATE")
    assert answers(cli, "delete", "a") == (0, "INSERT")
    gone = cli("kv", "get", "a")
    assert (gone.code, gone.out, gone.err) == (3, "", 'error: there is no key "a".\n')


def test_a_version_that_is_not_there_is_a_conflict_with_its_own_exit_code(cli: Cli) -> None:
    assert answers(cli, "put", "a", "1", "--if-version", "") == (0, "INSERT")
    assert answers(cli, "put", "a", "2", "--if-version", "") == (4, "CONFLICT")
    version = cli("kv", "get", "a").rows["version"]
    assert answers(cli, "put", "a", "2", "--if-version", version) == (0, "UPDATE")
    assert answers(cli, "put", "a", "3", "--if-version", version) == (4, "CONFLICT")
    assert answers(cli, "delete", "a", "--if-version", version) == (4, "CONFLICT")
    assert cli("kv", "get", "a").rows["value"] == 2


def test_numbers_keep_all_their_digits(cli: Cli) -> None:
    digits = "0.12345678901234567890123456789"
    cli("kv", "put", "a", digits)
    assert f'"value": {digits},' in cli("kv", "get", "a").out
    assert f'"value": {digits},' in cli("kv", "scan").out


def test_null_is_a_value(cli: Cli) -> None:
    cli("kv", "put", "a", "null")
    found = cli("kv", "get", "a")
    assert (found.code, found.rows["value"]) == (0, None)


def test_a_value_is_read_from_standard_input(dsn: str, cli: Cli, start: Start) -> None:
    process = start("kv", "put", "a", "-", stdin=subprocess.PIPE, TRUNKLINE_DSN=dsn)
    assert answer_of(process, '{"long":\n "text"}\n').code == 0
    assert cli("kv", "get", "a").rows["value"] == {"long": "text"}


def test_numbers_are_added_and_fields_removed(cli: Cli) -> None:
    assert answers(cli, "patch", "page", "views=1", "likes=-2", "old=5") == (0, "INSERT")
    assert answers(cli, "patch", "page", "views=1.5", "old=null", "a=b=1e2") == (0, "UPDATE")
    exact = "123456789012345678901234567890.123456789"
    assert answers(cli, "patch", "exact", f"n={exact}") == (0, "INSERT")
    assert f'"n": {exact}' in cli("kv", "get", "exact").out
    assert cli("kv", "get", "page").rows["value"] == {"views": 2.5, "likes": -2, "a=b": 100}


@pytest.mark.parametrize("pair", ["views", "=1", "views=", "views=x", "views=true", 'views="1"'])
def test_a_patch_takes_numbers(cli: Cli, pair: str) -> None:
    answer = cli("kv", "patch", "page", "likes=1", pair)
    assert (answer.code, answer.out) == (2, "")
    assert f'a patch takes field=number, got "{pair}"' in answer.err
    assert cli("kv", "get", "page").code == 3


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["put", "a", "text"], 2, "the value is not JSON"),
        (["put", "a", "NaN"], 2, "it has no NaN.\n hint: Use null, or a text: '\"NaN\"'."),
        (["put", "", "1"], 2, "a key is a text of at least one letter, got an empty one."),
        (["put", "a" * 513, "1"], 2, "a key has at most 512 bytes"),
        (["put", "a", "1", "--ttl", "soon"], 2, "--ttl takes a duration"),
        (["put", "a", "1", "--ttl", "0s"], 2, "a ttl is above 0"),
        (["put", "a", "1", "--ttl", "1h", "--policy", "p"], 2, "a policy or after a ttl, got both"),
        (["put", "a", "1", "--policy", "p"], 3, "trunkline kv policy put"),
        (["put", "a", "1", "--namespace", "n"], 3, "trunkline kv namespace put"),
        (["put", "a", "1", "--namespace", "parade"], 1, "trunkline kv instance put"),
        (["put", "a", "1", "--if-version", "x"], 2, "a version is what a read answered"),
        (["get", "a", "--namespace", "n"], 3, 'there is no namespace "n"'),
        (["patch", "a", "n=1", "n=2"], 2, 'field "n" is named twice'),
        (["scan", "--limit", "0"], 2, "--limit is at least 1, got 0."),
        (["watch", "--from", "7"], 1, "is not of this history"),
        (["instance", "here", "east", "main"], 3, "trunkline kv instance put"),
        (["instance", "put", "e st", "main", "dbname=x"], 2, "a zone has 1 to 63 letters"),
        (["instance", "drop", "east", "main"], 3, "trunkline kv topology"),
        (["namespace", "put", "a/b"], 2, "a namespace has 1 to 63 letters"),
        (["policy", "put", "p", "for ever"], 2, "DURATION takes a duration"),
        (["policy", "put", "p", "0s"], 2, "kept for a time above 0"),
        (["policy", "drop", "p"], 3, "trunkline kv policies"),
    ],
)
def test_bad_input_is_told_with_what_was_expected(
    cli: Cli, words: list[str], code: int, said: str
) -> None:
    answer = cli("kv", *words)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err


def test_a_scan_reads_part_after_part_to_the_end(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    sql.execute(
        "select trunkline.kv_put_many('default', array_agg('k' || n), array_agg(to_jsonb(n)))"
        " from generate_series(1000, 3499) n"
    )
    sql.execute("select trunkline.kv_put('default', 'other', '1')")
    assert [row["value"] for row in cli("kv", "scan", "k").rows] == [*range(1000, 3500)]
    some = cli("kv", "scan", "k", "--after", "k1001", "--limit", "1002").rows
    assert [row["value"] for row in some] == [*range(1002, 2004)]
    assert cli("kv", "scan", "x").rows == []
    assert cli("kv", "scan", "x", "--table").err == "No keys.\n"


def test_lines_become_keys(dsn: str, cli: Cli, start: Start) -> None:
    lines = '{"key": "a", "value": 1}\n\n{"key": "b", "value": null}\n{"value": 2, "key": "a"}\n'
    done = answer_of(start("kv", "put-many", stdin=subprocess.PIPE, TRUNKLINE_DSN=dsn), lines)
    assert (done.code, done.rows) == (0, {"keys": 2})
    assert {row["key"]: row["value"] for row in cli("kv", "scan").rows} == {"a": 2, "b": None}


@pytest.mark.parametrize("line", ["x", '{"key": "a"}', '{"key": 1, "value": 2}', "[1]"])
def test_a_line_that_is_no_key_and_value_is_named(dsn: str, start: Start, line: str) -> None:
    good = "".join(f'{{"key": "k{n}", "value": 1}}\n' for n in range(1500))
    process = start("kv", "put-many", stdin=subprocess.PIPE, TRUNKLINE_DSN=dsn)
    answer = answer_of(process, good + line + "\n")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("It ended early; 1000 keys are stored.\nerror: line 1501 is not")


def test_what_a_line_has_beside_its_key_and_value_is_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO('{"key": "a", "value": 1, "ttl": "7d"}\n'))
    answer = cli("kv", "put-many")
    assert (answer.code, answer.out) == (2, "")
    assert 'line 1 has "ttl" beside its key and its value.' in answer.err
    assert "--ttl" in answer.err


def test_instances_namespaces_and_policies_are_listed(cli: Cli) -> None:
    cli("kv", "instance", "put", "east", "main", "dbname=x password=secret")
    cli("kv", "namespace", "put", "sessions")
    cli("kv", "policy", "put", "short", "2d", "--namespace", "sessions")
    listed = cli("kv", "instance", "list")
    assert listed == cli("kv", "topology")
    assert "secret" not in listed.out
    assert cli("kv", "namespace", "list").rows == [
        {"namespace": "default", "owner": "postgres"},
        {"namespace": "sessions", "owner": "postgres"},
    ]
    assert cli("kv", "policy", "list").rows == [
        {"namespace": "sessions", "policy": "short", "keep": "2d", "owner": "postgres"}
    ]


def test_changes_are_watched_and_gone_on_with_by_position(cli: Cli) -> None:
    for key in ("user:1", "page:1", "user:2"):
        cli("kv", "put", key, f'"{key}"')
    first = cli("kv", "watch", "user:", "--from", "0", "--limit", "1")
    seen = json.loads(first.out)
    rest = cli("kv", "watch", "user:", "--from", str(seen["up_to"]), "--limit", "1")
    assert (first.code, rest.code) == (0, 0), first.err + rest.err
    assert (seen["key"], json.loads(rest.out)["value"]) == ("user:1", "user:2")


def test_watching_ends_in_good_order_when_it_is_told(dsn: str, cli: Cli, start: Start) -> None:
    cli("kv", "put", "a", "1")
    process = start("kv", "watch", "--from", "0", TRUNKLINE_DSN=dsn)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["value"] == 1
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0


def test_who_may_only_use_keys_can_watch_them(dsn: str, cli: Cli) -> None:
    cli("kv", "put", "a", "1")
    cli("kv", "tick")
    place = make_conninfo(dsn, options="-c role=trunkline_kv_client")
    answer = cli("kv", "watch", "--from", "0", "--limit", "1", "--dsn", place)
    assert (answer.code, answer.err) == (0, "")
    assert json.loads(answer.out)["key"] == "a"


def test_namespaces_and_policies_are_made_listed_and_taken_back(cli: Cli) -> None:
    said = [
        cli("kv", *words.split()).err
        for words in (
            "namespace put sessions",
            "namespace put sessions",
            "policy put short 2d --namespace sessions",
            "policy put short 2d --namespace sessions",
        )
    ]
    assert said == [
        "Namespace sessions is made.\n",
        "Namespace sessions is there already.\n",
        "Policy short of sessions is set.\n",
        "Policy short of sessions is so already.\n",
    ]
    assert cli("kv", "policies").rows == [
        {"namespace": "default", "policy": None, "keep": None, "owner": "postgres"},
        {"namespace": "sessions", "policy": "short", "keep": "2d", "owner": "postgres"},
    ]
    cli("kv", "put", "a", "1", "--namespace", "sessions", "--policy", "short")
    assert cli("kv", "get", "a", "--namespace", "sessions").rows["expires_at"] is not None
    assert cli("kv", "policy", "drop", "short", "--namespace", "sessions").code == 0


def test_a_database_that_stands_alone_says_so(cli: Cli) -> None:
    for words in ("status", "topology", "held", "audit"):
        answer = cli("kv", words)
        assert (answer.code, answer.rows) == (0, [])
    assert cli("kv", "status", "--table").err.startswith("This database stands alone")
    cli("kv", "put", "a", "1")
    assert cli("kv", "tick").err == "1 change got a position.\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is away is given up after a second."""
    monkeypatch.setattr("trunkline.kv.puller._CONNECT_WITHIN", 1.0)


@pytest.mark.usefixtures("impatient")
def test_passwords_of_the_parade_are_never_printed(cli: Cli) -> None:
    put = cli("kv", "instance", "put", "west", "main", "postgresql://r:geheim@127.0.0.1:1/kv")
    assert "a passfile or a service is better" in put.err
    cli("kv", "instance", "put", "east", "main", "host=127.0.0.1 port=1 password=geheim")
    cli("kv", "instance", "here", "east", "main")
    for form in ("--json", "--csv", "--table"):
        answers = [
            cli("kv", *words.split(), form)
            for words in (
                "topology",
                "status",
                "audit",
                "get instance/west/main --namespace parade",
                "scan --namespace parade",
                "watch --namespace parade --from 0 --limit 2",
            )
        ]
        assert not any("geheim" in answer.out + answer.err for answer in [put, *answers])
    assert {row["here"] for row in cli("kv", "topology").rows} == {True, False}


@pytest.mark.usefixtures("parade")
def test_an_audit_takes_what_this_copy_lacks(cli: Cli, west: str) -> None:
    cli("kv", "put", "a", "1", "--dsn", west)
    cli("kv", "audit")
    cli("kv", "put", "b", "2", "--dsn", west)
    assert cli("kv", "audit").rows == [{"instance": "west/main", "mended": 1, "error": None}]
    assert cli("kv", "audit").rows == [{"instance": "west/main", "mended": 0, "error": None}]
    assert [row["value"] for row in cli("kv", "scan").rows] == [1, 2]


@pytest.mark.usefixtures("parade")
def test_an_audit_leaves_the_work_to_a_service_that_does_it(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    sql.execute("select trunkline.lease_renew(gen_random_uuid(), 'other')")
    sql.execute("select trunkline.owner_take('kv:from:west/main', process) from trunkline.lease")
    answer = cli("kv", "audit")
    assert answer.code == 1
    assert answer.rows[0]["mended"] is None
    assert "a service pulls from it" in answer.rows[0]["error"]


@pytest.mark.usefixtures("parade", "impatient")
def test_an_audit_tells_who_cannot_be_reached_and_goes_on(cli: Cli, dsn: str) -> None:
    away = make_conninfo(dsn, host="127.0.0.1", port="1", hostaddr="", password="geheim")
    cli("kv", "instance", "put", "north", "main", away)
    answer = cli("kv", "audit")
    errors = {row["instance"]: row["error"] for row in answer.rows}
    assert answer.code == 1
    assert errors["west/main"] is None
    assert errors["north/main"]
    assert "geheim" not in answer.out + answer.err


@pytest.mark.usefixtures("parade")
def test_an_instance_leaves_the_parade(cli: Cli) -> None:
    assert [row["state"] for row in cli("kv", "status").rows] == ["new"]
    assert cli("kv", "instance", "drop", "west", "main").err == "west/main has left the parade.\n"
    assert cli("kv", "status").rows == []
