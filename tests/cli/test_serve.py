"""``trunkline serve``."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import httpx
import jwt
import psycopg
import pytest
from tests.cli.conftest import answer_of

from trunkline.cli.main import main
from trunkline.core.embedded import Server
from trunkline.testing import wait_until

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Cli, Start

SECRET = "a secret of the tests, long enough"


def address(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def make_live(sql: psycopg.Connection[Any]) -> None:
    sql.execute("create table chairs (id bigint primary key, name text)")
    sql.execute("select trunkline.live_watch('chairs')")


def events(answer: httpx.Response) -> Iterator[Any]:
    """What the events of a stream say."""
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
        elif line.startswith("id: "):
            yield None  # it has begun


def test_an_address_of_another_machine_is_told_from_a_port_that_is_taken(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["serve", "--host", "192.0.2.1", "--insecure"]) == 2
    told = capfd.readouterr().err
    assert told.startswith("error: cannot listen on 192.0.2.1: ")
    assert "hint: --host is an address of this machine" in told


def test_it_serves_live_tables_until_told_to_stop(
    dsn: str, start: Start, sql: psycopg.Connection[Any]
) -> None:
    make_live(sql)
    process = start("serve", "--insecure", "--port", "0", TRUNKLINE_DSN=dsn)
    url = address(process)
    with httpx.stream("GET", f"{url}/v1/live/chairs", timeout=20) as answer:
        told = events(answer)
        assert next(told) is None
        sql.execute("insert into chairs values (1, 'Thonet')")
        row = next(event for event in told if event)["row"]
        assert row == {"id": "1", "name": "Thonet"}
        process.send_signal(signal.SIGTERM)
        assert not [event for event in told if event]
    ended = answer_of(process)
    assert ended.code == 0
    assert "Traceback" not in ended.err
    assert sql.execute("select count(*) from trunkline.live_subscription").fetchone() == (0,)


def test_the_environment_says_who_may_ask_and_no_token_is_in_the_log(
    dsn: str, start: Start, sql: psycopg.Connection[Any]
) -> None:
    make_live(sql)
    process = start("serve", "--port", "0", TRUNKLINE_DSN=dsn, TRUNKLINE_JWT_SECRET=SECRET)
    url = address(process)
    token = jwt.encode({"role": "nobody_there", "exp": time.time() + 60}, SECRET, "HS256")
    assert httpx.get(f"{url}/healthz").status_code == 200
    assert httpx.get(f"{url}/v1/live").status_code == 401
    answer = httpx.get(f"{url}/v1/live/chairs", params={"access_token": token})
    assert answer.status_code == 403
    process.send_signal(signal.SIGINT)
    ended = answer_of(process)
    assert ended.code == 0
    assert token not in ended.err
    assert SECRET not in ended.err


def test_it_runs_the_embedded_server_with_its_services(home: Path, start: Start) -> None:
    process = start(
        "serve", "--insecure", "--port", "0", "--instance", "shop", TRUNKLINE_HOME=str(home)
    )
    url = address(process)
    server = Server(home, "shop")
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute("create table chairs (id int primary key)")
        connection.execute("comment on table chairs is $$ @behaviour +subscribable $$")

    def live() -> bool:
        return [table["name"] for table in httpx.get(f"{url}/v1/live").json()] == ["chairs"]

    wait_until(live, timeout=30)
    process.send_signal(signal.SIGTERM)
    assert answer_of(process).code == 0
    assert not server.running


@pytest.mark.crash
def test_the_subscriptions_of_one_that_is_killed_end_with_its_lease(
    dsn: str, start: Start, sql: psycopg.Connection[Any]
) -> None:
    make_live(sql)
    sql.execute("select trunkline.config_set('lease.ttl', '1 second')")
    process = start("serve", "--insecure", "--port", "0", "--no-services", TRUNKLINE_DSN=dsn)
    with httpx.stream("GET", f"{address(process)}/v1/live/chairs", timeout=20) as answer:
        assert next(events(answer)) is None
        count = "select count(*) from trunkline.live_subscription"
        assert sql.execute(count).fetchone() == (1,)
        process.kill()

    def ended() -> bool:
        sql.execute("call trunkline.maintain()")
        return sql.execute(count).fetchone() == (0,)

    wait_until(ended, timeout=30)


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        ([], {}, "no authentication is configured"),
        ([], {"TRUNKLINE_JWT_SECRET": "short"}, "TRUNKLINE_JWT_SECRET: a secret"),
        ([], {"TRUNKLINE_JWT_PUBLIC_KEY": "/nowhere"}, "cannot be read"),
        (["--insecure", "--cors", "shop"], {}, "no origin"),
        (["--insecure", "--port", "70000"], {}, "65535"),
        (["--insecure", "--port", "0", "--host", "nowhere.invalid"], {}, "cannot listen"),
    ],
    ids=range(6),
)
def test_what_makes_no_sense_is_refused_with_a_hint(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    environment: dict[str, str],
    said: str,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    answer = cli("serve", *words)
    assert answer.code == 2
    assert said in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""
