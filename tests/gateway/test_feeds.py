"""Streams that are open: what ends while it begins, leaves nothing behind."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.asking import ask
from tests.gateway.nodes import token

from trunkline.live import stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.gateway.nodes import Node, Roles


@pytest.mark.usefixtures("books")
async def test_whoever_leaves_just_after_his_subscription_was_committed_leaves_none(
    node: Node, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed, go_on = asyncio.Event(), asyncio.Event()
    acting_as = stream.acting_as

    @asynccontextmanager
    async def slow(*given: Any) -> AsyncIterator[None]:
        async with acting_as(*given):
            yield
        committed.set()
        await go_on.wait()

    monkeypatch.setattr(stream, "acting_as", slow)
    identity = node.gateway.authenticator.identify(token(roles.member))
    opening = asyncio.create_task(node.gateway.open(identity, "books").__aenter__())
    await asyncio.wait_for(committed.wait(), 10)
    opening.cancel()
    go_on.set()

    with pytest.raises(asyncio.CancelledError):
        await opening
    assert len(node.gateway.feeds) == 0
    assert ask(node.session, "select count(*) from trunkline.live_subscription") == 0
