"""``trunkline broker``: events from the command line."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Start


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Any:
    def give(text: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))

    return give


def stored(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("select trunkline.broker_tick()")
        return session.execute(
            "select topic, payload, key, metadata from trunkline.broker_events(1)"
        ).fetchall()


def test_events_are_published_as_argument_or_as_lines(cli: Cli, dsn: str, typed: Any) -> None:
    done = cli("broker", "publish", "orders", '{"n": 1}', "--key", "k", "--metadata", '{"m": 2}')
    assert (done.code, done.rows) == (0, [{"event_id": 1, "topic": "orders"}])
    typed('2\n\n"three"\n')
    assert [row["event_id"] for row in cli("broker", "publish", "orders", "-").rows] == [2, 3]
    assert stored(dsn) == [
        ("orders", {"n": 1}, "k", {"m": 2}),
        ("orders", 2, None, None),
        ("orders", "three", None, None),
    ]
    assert "0 events were due, 0 got a position" in cli("broker", "tick").err


def test_numbers_are_published_with_all_their_digits(cli: Cli, dsn: str, typed: Any) -> None:
    numbers = ["12345678901234567.89", "1.10", "9" * 5_000]
    metadata = '{"n": 12345678901234567.89}'
    assert cli("broker", "publish", "a", numbers[0], "--metadata", metadata).code == 0
    typed("\n".join(numbers[1:]))
    assert cli("broker", "publish", "a").code == 0
    with psycopg.connect(dsn) as session:
        kept = session.execute(
            "select payload::text, metadata::text from trunkline.event order by seq"
        )
        assert kept.fetchall() == [(numbers[0], metadata), (numbers[1], None), (numbers[2], None)]


def test_a_payload_of_too_many_levels_is_refused_in_words(cli: Cli, dsn: str, typed: Any) -> None:
    typed("[" * 100_000 + "]" * 100_000)
    done = cli("broker", "publish", "a")
    assert done.code == 2
    assert "line 1 has more levels than can be read" in done.err
    assert stored(dsn) == []


def test_lines_that_are_not_json_publish_nothing(cli: Cli, dsn: str, typed: Any) -> None:
    typed("1\nhello\n")
    done = cli("broker", "publish", "a")
    assert done.code == 2
    assert "line 2 is not JSON" in done.err
    assert "quotes" in done.err
    assert cli("broker", "publish", "a", "1", "--metadata", "[]").code == 2
    assert cli("broker", "publish", "a", "1", "--subscription", "7").code == 3
    assert stored(dsn) == []


def test_without_standard_input_there_are_no_lines_to_publish(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    answer = cli("broker", "publish", "a")
    assert (answer.code, answer.err.splitlines()[0]) == (2, "error: standard input is closed.")


@pytest.mark.parametrize("payload", ["NaN", '"\\u0000"', '"\\ud800"', "{", "tea"])
def test_a_payload_that_the_database_cannot_hold_is_refused_in_words(
    cli: Cli, payload: str
) -> None:
    answer = cli("broker", "publish", "orders", payload)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: ")


def test_an_event_is_published_for_later(cli: Cli, dsn: str) -> None:
    for time in ("in 10m", "2100-01-31T12:00"):
        assert cli("broker", "publish", "a", "1", "--deliver-at", time).code == 0
    done = cli("broker", "publish", "a", "1", "--deliver-at", "soon")
    assert (done.code, '--deliver-at takes a time, got "soon"' in done.err) == (2, True)
    assert stored(dsn) == []
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("update trunkline.event_due set deliver_at = now()")
    assert "2 events were due, 2 got a position" in cli("broker", "tick").err


def test_lines_are_enqueued_as_they_come(start: Start, dsn: str, tmp_path: Any) -> None:
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{json.dumps({'n': n})}\n" for n in range(250)))
    with lines.open() as source:
        done = start(
            *("broker", "enqueue", "a", "--batch", "100", "--key", "k"),
            stdin=source,
            TRUNKLINE_DSN=dsn,
        )
        _, talk = done.communicate(timeout=60)
    assert (done.returncode, talk) == (0, "250 events were published.\n")
    assert [(row[1], row[2]) for row in stored(dsn)] == [({"n": n}, "k") for n in range(250)]


def test_a_line_that_is_no_text_is_not_enqueued(start: Start, dsn: str, tmp_path: Any) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b'"tea"\n"\xff"\n')
    with lines.open() as source:
        answer = start("broker", "enqueue", "orders", stdin=source, TRUNKLINE_DSN=dsn)
        _, said = answer.communicate(timeout=30)
    assert answer.returncode == 2
    assert "1 event was published" in said
    assert "line 2 is not JSON" in said
    assert [payload for _, payload, *_ in stored(dsn)] == ["tea"]


def test_what_was_enqueued_before_a_bad_line_is_published_and_told(
    start: Start, dsn: str, tmp_path: Any
) -> None:
    lines = tmp_path / "lines"
    lines.write_text("1\n2\nhello\n")
    with lines.open() as source:
        done = start("broker", "enqueue", "a", stdin=source, TRUNKLINE_DSN=dsn)
        _, talk = done.communicate(timeout=60)
    assert done.returncode == 2
    assert "2 events were published" in talk
    assert "line 3 is not JSON" in talk
    assert len(stored(dsn)) == 2


def test_what_became_of_an_event_is_told(cli: Cli) -> None:
    event = cli("broker", "publish", "orders", "1").rows[0]["event_id"]
    hops = cli("why", str(event)).rows
    assert hops[0]["hop"] == "published"
    assert cli("why", f"ev{0:014x}{event:016x}").rows[0] == hops[0]
    assert cli("why", "999999999").code == 3
    assert cli("why", "x").code == 2
