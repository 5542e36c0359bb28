"""``trunkline live``."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.test_stream import start as beginning
from tests.fixtures.asking import connections
from tests.live.steps import CONTACTS, app_role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Cli, Start
    from tests.fixtures.asking import Session


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with connections(dsn) as connect:
        opened = connect()
        opened.execute("drop table if exists contacts")
        opened.execute(CONTACTS)
        yield opened


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_table_becomes_live_and_ceases_to_be(session: Session, cli: Cli) -> None:
    made = cli("live", "watch", "contacts", "--role", "trunkline_reader")
    assert made.rows["relation"] == "public.contacts"
    assert made.rows["columns"][0]["kind"] == "number"
    assert [row["name"] for row in cli("live", "tables").rows] == ["contacts"]
    assert cli("live", "unwatch", "contacts").code == 0
    assert cli("live", "unwatch", "contacts").code == 3
    assert cli("live", "tables").rows == []


def test_a_right_to_subscribe_is_given_and_taken_back(session: Session, cli: Cli) -> None:
    with app_role(session) as role:
        assert cli("live", "allow", role).code == 0
        assert cli("live", "forbid", role).code == 0
        assert cli("live", "forbid", role).code == 3


def test_a_comment_makes_a_table_live(session: Session, cli: Cli) -> None:
    session.execute("comment on table contacts is '@behaviour +subscribable'")
    assert cli("live", "tagged").rows == [{"relation": "contacts", "live": True}]
    assert cli("live", "tagged").rows == []


def test_changes_are_followed_and_gone_on_with_by_token(session: Session, cli: Cli) -> None:
    cli("live", "watch", "contacts")
    token = beginning(session)
    session.execute("insert into contacts values (1, 7, 'a'), (2, 8, 'b'), (3, 7, 'c')")
    session.execute("delete from contacts where id = 1")
    follow = ("live", "follow", "contacts", "--condition", '{"org_id": 7}')

    first = cli(*follow, "--after", token, "--limit", "1")
    seen = lines(first.out)
    rest = cli(*follow, "--after", seen[-1]["token"], "--limit", "2")

    assert (first.code, rest.code) == (0, 0), first.err + rest.err
    assert [(row["change"], row["key"]) for row in seen + lines(rest.out)] == [
        ("created", {"id": 1}),
        ("created", {"id": 3}),
        ("deleted", {"id": 1}),
    ]


def test_following_ends_in_good_order_and_leaves_no_subscription(
    dsn: str, session: Session, start: Start, cli: Cli
) -> None:
    cli("live", "watch", "contacts")
    token = beginning(session)
    session.execute("insert into contacts values (1, 7, 'a')")
    process = start("live", "follow", "contacts", "--after", token, TRUNKLINE_DSN=dsn)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["change"] == "created"
    assert len(cli("live", "subscriptions").rows) == 1

    process.send_signal(signal.SIGINT)

    assert process.wait(10) == 0
    assert cli("live", "subscriptions").rows == []


def test_whose_subscription_is_ended_is_told(
    dsn: str, session: Session, start: Start, cli: Cli
) -> None:
    cli("live", "watch", "contacts")
    token = beginning(session)
    session.execute("insert into contacts values (1, 7, 'a')")
    process = start("live", "follow", "contacts", "--after", token, TRUNKLINE_DSN=dsn)
    assert process.stdout is not None
    process.stdout.readline()
    number = cli("live", "subscriptions").rows[0]["subscription"]
    assert cli("live", "unsubscribe", str(number)).code == 0
    assert process.wait(15) == 3
    assert cli("live", "unsubscribe", str(number)).code == 3


def test_rubbish_is_refused_in_a_sentence(session: Session, cli: Cli) -> None:
    cli("live", "watch", "contacts")
    for code, words in (
        (2, ("follow", "contacts", "--condition", "{")),
        (2, ("follow", "contacts", "--condition", "[1]")),
        (2, ("follow", "contacts", "--condition", '{"nothing": 1}')),
        (2, ("follow", "contacts", "--change", "created", "--change", "moved")),
        (2, ("follow", "contacts", "--after", "rubbish")),
        (3, ("follow", "nowhere")),
        (3, ("follow", "contacts", "--role", "nobody")),
        (3, ("watch", "contacts", "--role", "nobody")),
        (3, ("tables", "pg_class")),
        (3, ("watch", "nowhere")),
        (3, ("allow", "nobody")),
    ):
        answer = cli("live", *words)
        assert answer.code == code, (words, answer)
        assert answer.err.startswith("error: ")
        assert "Traceback" not in answer.err
        if "--change" in words:
            assert 'created, updated, deleted and left, got "moved".' in answer.err
        if "nobody" in words:
            assert "there is no role nobody." in answer.err
