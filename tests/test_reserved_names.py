"""Names that start with ``trunkline.`` are refused in every capability."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import ask, connections, refused
from tests.fixtures.postgres import new_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer

REFUSED = {
    "a topic of the log": "select trunkline.log_create('trunkline.x')",
    "a group of the log": "select trunkline.log_join('t', 'trunkline.x', gen_random_uuid())",
    "a shared group": "select trunkline.log_claim('t', 'trunkline.x', 0, 1)",
    "a tube": "select trunkline.tube_ensure('trunkline.x')",
    "a namespace": "select trunkline.kv_namespace_put('trunkline.x')",
    "an event": "select trunkline.broker_publish('trunkline.group.trimmed', '{}')",
    "a large event": """select trunkline.broker_publish('trunkline.x',
        to_jsonb(repeat('x', 70000)))""",
    "a batch": """select trunkline.broker_publish_many(array['a', 'trunkline.x'],
        array['1', '2']::jsonb[])""",
    "an event for later": """select trunkline.broker_publish('trunkline.x', '{}',
        deliver_at => now() + interval '1 hour')""",
    "an inserted event": """insert into trunkline.event (topic, payload)
        values ('trunkline.x', '{}')""",
    "a captured event": """select trunkline._broker_capture('trunkline', '{}', array['k'],
        array['1']::jsonb[], array['group.trimmed'], array['{}']::jsonb[])""",
    "a topic of events": "select trunkline.broker_topic('trunkline.x', 'locked')",
    "a group": "select trunkline.broker_group('trunkline.x')",
    "a group of a subscription": "select trunkline.broker_subscribe('trunkline.x')",
    "a handler": "select trunkline.broker_subscribe('g', handler => 'trunkline.x')",
    "a member": "select trunkline.broker_read('g', 'trunkline.x')",
    "a webhook": "select trunkline.broker_webhook_add('trunkline.x', 'https://example.com/')",
}


@pytest.fixture(scope="module")
def writer(server: AnyServer, template: str) -> Iterator[Session]:
    with (
        new_database(server, template=template) as name,
        connections(server.dsn(name)) as connect,
    ):
        session = connect()
        session.execute("select trunkline.log_create('t'), trunkline.broker_group('g')")
        session.execute(
            "create role reserved_writer;"
            " grant trunkline_writer, trunkline_admin to reserved_writer"
        )
        session.execute("set role reserved_writer")
        yield session
        session.execute("reset role")
        session.execute("drop owned by reserved_writer; drop role reserved_writer")


@pytest.mark.parametrize("statement", REFUSED.values(), ids=REFUSED)
def test_a_user_cannot_take_a_reserved_name(writer: Session, statement: str) -> None:
    with refused("TL422") as caught:
        writer.execute(statement)
    assert 'names that start with "trunkline." are reserved' in str(caught.value)


def test_a_name_that_only_resembles_a_reserved_one_is_allowed(writer: Session) -> None:
    assert ask(writer, "select trunkline.broker_publish('trunkline', '{}') > 0")
    assert ask(writer, "select trunkline.broker_publish('my.trunkline.x', '{}') > 0")
    writer.execute("insert into trunkline.event (topic, payload) values ('trunklines.x', '{}')")
