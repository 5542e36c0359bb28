"""``trunkline broker``: who wants which events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg
    from tests.cli.conftest import Cli


def test_a_group_is_subscribed_listed_and_unsubscribed(cli: Cli) -> None:
    made = cli("broker", "subscribe", "billing", '{"topic": "orders.*"}', "--expiry", "1h")
    assert made.code == 0
    again = cli("broker", "subscribe", "billing", '{"topic": "orders.*"}', "--expiry", "2h")
    assert again.rows == made.rows
    number = made.rows["subscription"]
    sql = ("e.topic = s.params ->> 't'", "--params", '{"t": "x"}', "--handler", "h")
    assert cli("broker", "subscribe", "other", *sql, "--lanes", "2").code == 0
    assert len(cli("broker", "subscriptions").rows) == 2
    (listed,) = cli("broker", "subscriptions", "--group", "billing").rows
    assert (listed["condition"], listed["expiry"], listed["way"]) == (
        '{"topic": "orders.*"}',
        "2h",
        "scan",
    )
    assert cli("broker", "unsubscribe", str(number)).code == 0
    assert cli("broker", "unsubscribe", str(number)).code == 3


def test_a_condition_is_explained_before_anybody_depends_on_it(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    sql.execute("select trunkline.broker_publish('a', to_jsonb(n)) from generate_series(0, 9) n")
    sql.execute("select trunkline.broker_tick()")
    said = cli("broker", "explain", '{"range": {"payload": {"gte": 7}}}').rows
    assert (said["events"], said["matches"], said["error"]) == (10, 3, None)
    said = cli("broker", "explain", "1 / (e.payload)::int = 1", "-n", "10").rows
    assert "division by zero" in said["error"]
    refused = cli("broker", "explain", "exists (select 1)")
    assert refused.code == 2
    assert "a sub-select is not allowed" in refused.err


def test_a_subscription_begins_with_the_history_and_leaves_quarantine(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    sql.execute("select trunkline.broker_publish('a', to_jsonb(n)) from generate_series(0, 2) n")
    sql.execute("select trunkline.broker_tick()")
    condition = "1 / (e.payload)::int = 1"
    made = cli("broker", "subscribe", "g", condition, "--from", "1").rows["subscription"]
    rounds = "select trunkline.broker_match() + trunkline.broker_catch_up()"
    while (row := sql.execute(rounds).fetchone()) and row[0]:
        pass
    (listed,) = cli("broker", "subscriptions").rows
    assert (listed["state"], listed["error_position"]) == ("quarantined", 1)
    resumed = cli("broker", "resume", str(made))
    assert resumed.code == 0
    assert "from position 1 on" in resumed.err
    assert cli("broker", "resume", str(made), "--retry").code == 4


def test_what_cannot_be_understood_is_refused_before_anything_happens(cli: Cli) -> None:
    for words in (
        ("subscribe", "g", "--params", "[1]"),
        ("subscribe", "g", "--params", "x"),
        ("subscribe", "g", "--from", "earliest"),
        ("subscribe", "g", "--expiry", "soon"),
        ("subscribe", "g", '{"topic": []}'),
    ):
        assert cli("broker", *words).code == 2
    for place in ("earliest", "rubbish"):
        said = cli("broker", "subscribe", "g", "--from", place).err
        assert f'--from takes a position or a time, got "{place}".' in said
    assert cli("broker", "subscriptions").rows == []
