"""``trunkline broker unforwarded``: events that are too large for the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg
    from tests.cli.conftest import Cli


def set_aside(cli: Cli, sql: psycopg.Connection[Any], *topics: str) -> None:
    """Publish an event that is too large to each topic of the log, and have it set aside."""
    sql.execute("select trunkline.config_set('broker.forward_bytes', '65536')")
    for topic in topics:
        cli("log", "create", topic)
        sql.execute(
            "select trunkline.broker_publish(%s, to_jsonb(repeat('x', 70000)), 'ann')", [topic]
        )
    sql.execute("select trunkline.broker_tick()")
    sql.execute("select trunkline.broker_match()")
    for topic in topics:
        sql.execute("select trunkline.broker_forward(%s)", [topic])


def test_events_too_large_for_the_log_are_listed(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    set_aside(cli, sql, "orders", "invoices")
    assert [row["topic"] for row in cli("broker", "unforwarded").rows] == ["orders", "invoices"]
    [found] = cli("broker", "unforwarded", "invoices").rows
    assert (found["event_position"], found["key"]) == (2, "ann")
    assert "what is forwarded has up to 65536" in found["error"]
    lines = cli("broker", "unforwarded", "invoices", "--csv").out.splitlines()
    assert lines[0] == "topic,event_id,event_position,key,at,error,aside_at"
    assert len(lines) == 2
    assert "invoices" in cli("broker", "unforwarded", "--table").out


def test_where_every_event_is_forwarded_nothing_is_listed(cli: Cli) -> None:
    assert cli("broker", "unforwarded").rows == []
    assert "Every event fits." in cli("broker", "unforwarded", "--table").err
    assert cli("broker", "unforwarded", "orders").code == 3


def test_events_too_large_for_the_log_are_discarded_all_or_none(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    set_aside(cli, sql, "orders", "invoices")
    ids = [str(row["event_id"]) for row in cli("broker", "unforwarded").rows]
    assert cli("broker", "unforwarded-discard", ids[0], "999", "--yes").code == 3
    assert len(cli("broker", "unforwarded").rows) == 2
    answer = cli("broker", "unforwarded-discard", *ids, "--yes")
    assert (answer.code, answer.err.strip()) == (0, "2 events are forgotten.")
    assert cli("broker", "unforwarded").rows == []
