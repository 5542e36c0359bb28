"""``trunkline broker read|commit|seek|groups|lag|group-delete``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.groups import Member, match, subscribe
from tests.broker.steps import publish
from tests.broker.test_stream import start as beginning
from tests.fixtures.asking import connections

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Cli
    from tests.fixtures.asking import Session


@pytest.fixture
def session(dsn: str) -> Iterator[Session]:
    with connections(dsn) as connect:
        opened = connect()
        subscribe(opened)
        for number in range(5):
            publish(opened, "order", {"n": number}, key="k")
        match(opened)
        yield opened


def rows(cli: Cli, *words: str) -> list[dict[str, Any]]:
    answer = cli("broker", *words)
    assert answer.code == 0, answer.err
    found: list[dict[str, Any]] = answer.rows
    return found


def test_what_waits_is_shown_and_committed(session: Session, cli: Cli) -> None:
    waiting = rows(cli, "read", "billing")
    assert [one["payload"]["n"] for one in waiting] == list(range(5))
    third = waiting[2]

    done = cli("broker", "commit", "billing", str(third["up_to"]), "--lane", str(third["lane"]))

    assert done.code == 0, done.err
    assert [one["payload"]["n"] for one in rows(cli, "read", "billing")] == [3, 4]


def test_events_are_shown_with_every_digit_that_was_published(session: Session, cli: Cli) -> None:
    exact = '{"id": 12345678901234567890, "rate": 0.12345678901234567890, "price": 1.10}'
    for payload in (exact, '"tea"', "null"):
        session.execute("select trunkline.broker_publish('order', %s)", [payload])
    match(session)

    read = cli("broker", "read", "billing").out
    sheet = cli("broker", "read", "billing", "--csv").out
    stream = cli("broker", "stream", "order", "--after", beginning(session), "--limit", "8").out

    for shown in (read, stream):
        assert f'"payload": {exact}' in shown
        assert '"payload": "tea"' in shown
        assert '"payload": null' in shown
    assert ",tea," in sheet
    assert exact.replace('"', '""') in sheet


def test_a_lane_that_a_worker_has_is_not_committed_from_outside(session: Session, cli: Cli) -> None:
    lane = rows(cli, "read", "billing")[0]["lane"]
    Member(session).join()

    refused = cli("broker", "commit", "billing", "1", "--lane", str(lane))

    assert refused.code == 4
    assert "worker" in refused.err


def test_a_commit_that_is_refused_leaves_no_handler_behind(session: Session, cli: Cli) -> None:
    for words in (("999", "--lane", "0"), ("1", "--lane", "77")):
        refused = cli("broker", "commit", "billing", *words, "--handler", "mistyped")
        assert refused.code in {2, 4}
    assert rows(cli, "lag", "--group", "billing") == []
    assert session.execute("select count(*) from trunkline.lease").fetchone() == (0,)


@pytest.mark.parametrize(
    "words",
    ["lag --group biling", "groups --group biling", "dead list --group biling", "read biling"],
)
def test_a_group_that_is_not_there_is_never_shown_as_an_empty_one(cli: Cli, words: str) -> None:
    answer = cli("broker", *words.split())
    assert (answer.code, answer.out) == (3, "")
    assert 'there is no group "biling"' in answer.err


def test_reading_makes_no_handler_unless_it_is_told_to(session: Session, cli: Cli) -> None:
    assert len(rows(cli, "read", "billing", "--handler", "mail", "-n", "2")) == 2
    assert rows(cli, "lag", "--group", "billing") == []

    rows(cli, "read", "billing", "--handler", "mail", "--register")

    assert {one["handler"] for one in rows(cli, "lag", "--group", "billing")} == {"mail"}


def test_groups_lag_seek_and_delete(session: Session, cli: Cli) -> None:
    rows(cli, "read", "billing", "--register")
    assert [(one["group_name"], one["waiting"]) for one in rows(cli, "groups")] == [("billing", 5)]
    assert sum(one["waiting"] for one in rows(cli, "lag", "--group", "billing")) == 5

    rows(cli, "seek", "billing", "--to", "latest")
    assert rows(cli, "read", "billing") == []
    rows(cli, "seek", "billing", "--to", "earliest")
    assert len(rows(cli, "read", "billing")) == 5
    rows(cli, "seek", "billing", "--to", "1h ago")
    assert len(rows(cli, "read", "billing")) == 5

    last = max(one["event_position"] for one in rows(cli, "read", "billing"))
    rows(cli, "seek", "billing", "--position", str(last))
    assert [one["event_position"] for one in rows(cli, "read", "billing")] == [last]

    assert cli("broker", "group-delete", "billing", "--yes").code == 0
    assert cli("broker", "read", "billing").code == 3


@pytest.mark.parametrize("place", ["hot", "rubbish", "0", "-1"])
def test_a_handler_is_not_moved_to_a_place_that_is_none(
    session: Session, cli: Cli, place: str
) -> None:
    rows(cli, "read", "billing", "--register")
    rows(cli, "seek", "billing", "--to", "latest")
    answer = cli("broker", "seek", "billing", "--to", place)
    assert answer.code == 2
    assert place in answer.err
    assert "offset" not in answer.err
    assert "hot" not in answer.err.replace(f'"{place}"', "")
    assert rows(cli, "read", "billing") == []


@pytest.mark.parametrize("where", [(), ("--to", "latest", "--position", "1")])
def test_a_handler_is_moved_to_one_place(cli: Cli, where: tuple[str, ...]) -> None:
    answer = cli("broker", "seek", "billing", *where)
    assert answer.code == 2
    assert "--to PLACE or --position N" in answer.err


def test_the_doctor_tells_of_retries_that_nobody_will_make(session: Session, cli: Cli) -> None:
    def told() -> list[str]:
        found = [one["found"] for one in cli("doctor").rows if one["check"] == "broker"]
        return [one for one in found if "tried again" in one]

    member = Member(session, handler="mail")
    shares = {share.lane: share.epoch for share in member.join()}
    lane, first = rows(cli, "read", "billing", "--handler", "mail")[0]["lane"], 1
    session.execute(
        "select trunkline.broker_fail("
        "'billing', 'mail', %s, %s, array[%s::bigint], 'no', interval '1 hour')",
        [lane, shares[lane], first],
    )
    assert told() == []
    session.execute("delete from trunkline.lease")
    assert told() == [
        '1 event waits to be tried again by handler "mail" of group billing, and no worker runs it'
    ]


def test_the_doctor_sees_what_waits_for_somebody(session: Session, cli: Cli) -> None:
    bad = subscribe(session, "bad", "1 / (e.payload ->> 'n')::int > 0")
    publish(session, "order", {"n": 0})
    match(session)
    publish(session, "order", {"n": 1})
    session.execute("select trunkline.broker_tick()")
    session.execute("update trunkline.tick set at = at - interval '2 minutes'")

    told = [one["found"] for one in cli("doctor").rows if one["check"] == "broker"]
    assert any("1 event waits to be matched" in one for one in told), told
    assert any("1 subscription is in quarantine" in one for one in told), (bad, told)
