"""Watched tables for Python programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.broker.watching import ORDERS

import trunkline
from trunkline.core.errors import Invalid, NotFound

if TYPE_CHECKING:
    from tests.fixtures.asking import Session


async def test_a_table_is_watched_listed_and_unwatched(clean_dsn: str, session: Session) -> None:
    session.execute(ORDERS)
    async with trunkline.connect(clean_dsn) as tl:
        made = await tl.broker.watch("orders", columns=["status"], on_delete=False)
        assert (made.topic, made.columns, made.key_columns) == ("public.orders", ["status"], ["id"])
        (found,) = await tl.broker.watched("orders")
        assert (found.watch, found.operations) == (made.watch, ["insert", "update", "truncate"])
        assert (found.fault, found.parts) == (None, 0)
        session.execute("insert into orders values (1, 'new')")
        await tl.broker.tick()
        (event,) = await tl.broker.events(1)
        assert (event.topic, event.payload) == ("public.orders.insert", {"id": 1, "status": "new"})
        with pytest.raises(Invalid, match="columns"):
            await tl.broker.watch("orders", columns=["nonsense"])
        assert await tl.broker.unwatch("orders") is True
        assert await tl.broker.unwatch("orders") is False
        assert await tl.broker.watched() == []
        with pytest.raises(NotFound, match=r"table public\.orders is not watched"):
            await tl.broker.watched("orders")


def test_the_blocking_client_does_the_same(clean_dsn: str, session: Session) -> None:
    session.execute(ORDERS)
    with trunkline.connect_sync(clean_dsn) as tl:
        made = tl.broker.watch("orders", condition="total > 0")
        assert [one.condition for one in tl.broker.watched()] == ["total > 0"]
        assert tl.broker.watch("orders", condition="total > 0") == made
        assert tl.broker.unwatch("orders")
