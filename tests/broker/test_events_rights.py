"""Who may publish, and what a plain INSERT may say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.broker.steps import events, payloads, publish, tick
from tests.fixtures.asking import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fixtures.asking import Session


@pytest.fixture
def user(connect: Callable[..., Session]) -> Iterator[Callable[..., Session]]:
    """A session of a login role with some group roles and nothing else."""
    made: list[tuple[Session, str]] = []

    def make(*groups: str) -> Session:
        name, session = f"user_{uuid4().hex}", connect()
        session.execute(f"create role {name} login")
        for group in groups:
            session.execute(f"grant {group} to {name}")
        session.execute(f"set session authorization {name}")
        made.append((session, name))
        return session

    yield make
    for session, name in made:
        session.execute("reset session authorization")
        session.execute(f"drop owned by {name}; drop role {name}")


INSERT = "insert into trunkline.event (topic, payload) values ('a', '{\"n\": 1}')"


def test_a_plain_insert_publishes_for_who_may_write(
    session: Session, user: Callable[..., Session]
) -> None:
    writer = user("trunkline_writer")
    writer.execute(INSERT)
    writer.execute(
        "insert into trunkline.event (topic, key, payload, metadata, subscription)"
        " select 'many', 'k', to_jsonb(n), '{\"m\": 1}', 7 from generate_series(1, 3) n"
    )
    publish(writer, "a", "by function")
    tick(session)
    found = events(session)
    assert [event.payload for event in found] == [{"n": 1}, 1, 2, 3, "by function"]
    assert (found[1].key, found[1].metadata, found[1].subscription) == ("k", {"m": 1}, 7)
    assert len({event.event_id for event in found}) == 5


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("xid", "'5'"),
        ("slot", "0"),
        ("seq", "1"),
        ("xid_space", "0"),
        ("at", "now()"),
        ("event_id", "1"),
    ],
)
def test_who_may_write_cannot_say_when_an_event_became_history(
    user: Callable[..., Session], column: str, value: str
) -> None:
    writer = user("trunkline_writer")
    with refused("42501"):
        writer.execute(
            f"insert into trunkline.event (topic, payload, {column}) values ('a', '1', {value})"
        )


def test_who_may_write_can_neither_read_nor_change_events_in_the_table(
    session: Session, user: Callable[..., Session]
) -> None:
    writer = user("trunkline_writer")
    for statement in (
        "select topic from trunkline.event",
        "update trunkline.event set topic = 'b'",
        "delete from trunkline.event",
        "insert into trunkline.event_due (event_id) values (1)",
        "insert into trunkline.event_0 (topic, payload) values ('a', '1')",
        "select setval('trunkline.event_seq', 1)",
    ):
        with refused("42501"):
            writer.execute(statement)


def test_who_may_only_read_cannot_publish(session: Session, user: Callable[..., Session]) -> None:
    publish(session, "a", 1)
    reader = user("trunkline_reader")
    for statement in (INSERT, "select trunkline.broker_publish('a', '1')"):
        with refused("42501"):
            reader.execute(statement)
    assert payloads(reader) == [1]


@pytest.mark.parametrize(
    ("columns", "values", "words"),
    [
        ("topic", ["a\nb"], "control character"),
        ("topic", ["x" * 256], "1 to 255 characters"),
        ("topic, key", ["a", "k" * 1001], "1000 bytes"),
        ("topic, metadata", ["a", "[1]"], "JSON object"),
    ],
)
def test_a_plain_insert_is_refused_in_the_same_words(
    session: Session, user: Callable[..., Session], columns: str, values: list[Any], words: str
) -> None:
    writer = user("trunkline_writer")
    marks = ", ".join(["%s"] * len(values))
    with refused("TL422") as caught:
        writer.execute(
            f"insert into trunkline.event ({columns}, payload) values ({marks}, '1')", values
        )
    assert words in str(caught.value)
    assert payloads(session) == []
