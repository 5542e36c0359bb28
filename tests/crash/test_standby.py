"""What a standby answers while it follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import ask, connections

import trunkline
from trunkline.core import migrate
from trunkline.log import calls

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.standby import Pair

    from trunkline.core.embedded import Server

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120)]


def prepare(server: Server) -> None:
    dsn = server.dsn("postgres")
    migrate.install(dsn)
    with trunkline.connect_sync(dsn) as tl:
        tl.log.create("orders", partitions=2)
        tl.log.append("orders", ["a", "b", "c"])
        tl.broker.publish("orders", 1)
        tl.broker.tick()


def test_a_standby_tells_where_topics_and_events_end_and_in_which_life_of_the_server(
    make_pair: Callable[..., Pair],
) -> None:
    pair = make_pair(prepare)
    with (
        trunkline.connect_sync(pair.dsn) as primary,
        trunkline.connect_sync(pair.standby.dsn("postgres")) as standby,
        connections(pair.standby.dsn("postgres")) as connect,
    ):
        before = standby.db.run(calls.ends(["orders"]))
        assert before == primary.db.run(calls.ends(["orders"]))
        assert standby.broker.ends() == primary.broker.ends()
        assert standby.db.run(calls.position_check("orders", 0, 1, before[0].incarnation)) is None
        session = connect()
        assert ask(session, "select trunkline.incarnation()") == before[0].incarnation
        pair.fail_over()
        after = standby.db.run(calls.ends(["orders"]))
        assert after[0].incarnation > before[0].incarnation
        assert ask(session, "select trunkline.incarnation()") == after[0].incarnation
