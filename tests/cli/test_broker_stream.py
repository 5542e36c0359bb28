"""``trunkline broker stream`` and ``schedule``."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from tests.broker.steps import publish
from tests.broker.test_stream import start as beginning
from tests.cli.conftest import Cli, Start, answer_of
from tests.fixtures.asking import connections

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.proxy import Proxy


def test_events_are_followed_and_gone_on_with_by_token(dsn: str, cli: Cli) -> None:
    with connections(dsn) as connect:
        session = connect()
        for number in range(3):
            publish(session, "order", {"n": number})
        token = beginning(session)

    first = cli("broker", "stream", "order", "--after", token, "--limit", "2")
    seen = [json.loads(line) for line in first.out.splitlines()]
    rest = cli("broker", "stream", "order", "--after", seen[-1]["token"], "--limit", "1")

    assert (first.code, rest.code) == (0, 0), first.err + rest.err
    assert [event["payload"]["n"] for event in seen] == [0, 1]
    assert json.loads(rest.out)["payload"] == {"n": 2}


def test_a_stream_ends_in_good_order_when_it_is_told(dsn: str, start: Start) -> None:
    with connections(dsn) as connect:
        session = connect()
        publish(session, "order", 1)
        token = beginning(session)
    process = start("broker", "stream", "--after", token, TRUNKLINE_DSN=dsn)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["payload"] == 1

    process.send_signal(signal.SIGINT)

    assert process.wait(10) == 0


def test_a_stream_stops_soon_though_the_server_is_away(
    dsn: str, start: Start, proxy: Callable[[str], Proxy]
) -> None:
    wire = proxy(dsn)
    with connections(dsn) as connect:
        session = connect()
        publish(session, "order", 1)
        token = beginning(session)
    process = start("broker", "stream", "--after", token, TRUNKLINE_DSN=wire.dsn)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["payload"] == 1
    wire.refuse()
    process.send_signal(signal.SIGTERM)
    answer = answer_of(process, within=12)  # a call tries for thirty seconds to reach it
    assert (answer.code, answer.out) == (0, "")
    assert "Traceback" not in answer.err


def test_rubbish_is_refused_in_a_sentence(cli: Cli) -> None:
    for words in (
        ("stream", "--after", "rubbish"),
        ("stream", "--params", "{"),
        ("stream", "--params", "[1]"),
        ("stream", "--params", "5"),
        ("stream", "--params", "[]"),
        ("stream", "--params", "null"),
        ("stream", "--params", '{"a": NaN}'),
        ("stream", "--condition", "e.nothing"),
        ("schedule", "somebody"),
        ("schedule", "pg_cron"),
    ):
        answer = cli("broker", *words)
        assert answer.code == 2, words
        assert answer.err.startswith("error: ")
        assert "Traceback" not in answer.err


def test_the_schedule_is_shown(cli: Cli) -> None:
    assert cli("broker", "schedule").rows[0]["by_whom"] == "services"
