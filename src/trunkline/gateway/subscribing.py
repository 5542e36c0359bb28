"""From a field of GraphQL to a stream of a live table."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trunkline.broker.stream import Reset
from trunkline.core.errors import Invalid, PositionTrimmed
from trunkline.gateway.selection import selected
from trunkline.live.models import LiveBatch

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
    from contextlib import AbstractAsyncContextManager

    from graphql import GraphQLResolveInfo

    from trunkline.gateway.auth import Identity
    from trunkline.gateway.feeds import Feed
    from trunkline.gateway.gateway import Gateway


@dataclass(frozen=True, slots=True)
class Asking:
    """Whoever sends operations over one connection; the context of GraphQL."""

    gateway: Gateway
    identity: Identity


@dataclass(frozen=True, slots=True)
class Subscribed:
    """What a field of the schema subscribes to."""

    relation: str
    changes: frozenset[str] | None
    columns: dict[str, str]
    """Names of columns by what they are called in GraphQL."""
    by_patch: bool
    """Whether the columns that are selected under patch say which updates are told of."""


class Batches:
    """The batches of a feed that is open; it is closed with them."""

    def __init__(self, opened: AbstractAsyncContextManager[Feed], feed: Feed):
        self._opened = opened
        self._batches = _batches(feed)
        self._closed = False

    def __aiter__(self) -> Batches:
        return self

    async def __anext__(self) -> LiveBatch:
        try:
            return await anext(self._batches)
        except BaseException:
            await self.aclose()
            raise

    async def aclose(self) -> None:
        """Let go of the stream. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        try:
            await self._batches.aclose()
        finally:
            await self._opened.__aexit__(None, None, None)


async def _batches(feed: Feed) -> AsyncGenerator[LiveBatch, None]:
    async with aclosing(feed.items()) as items:
        async for item in items:
            if isinstance(item, Reset):
                raise PositionTrimmed(
                    item.reason, hint="Load the rows again, and subscribe without after."
                )
            if isinstance(item, LiveBatch):
                yield item


def subscribe_to(
    what: Subscribed,
) -> Callable[..., Coroutine[Any, Any, AsyncIterator[LiveBatch]]]:
    """The function that GraphQL calls when a client subscribes to a field."""

    async def subscribe(
        _root: Any,
        info: GraphQLResolveInfo[Asking],
        condition: dict[str, Any] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[LiveBatch]:
        asking = info.context
        opened = asking.gateway.open(
            asking.identity,
            what.relation,
            condition=_by_column(condition, what),
            changes=what.changes,
            columns=_columns(info, what),
            after=after,
        )
        return Batches(opened, await opened.__aenter__())

    return subscribe


def _by_column(condition: dict[str, Any] | None, what: Subscribed) -> dict[str, Any] | None:
    for name, asked in (condition or {}).items():
        if asked is None:
            raise Invalid(
                f"the condition on {name} is null.",
                hint=f"Leave {name} out, or ask for rows where it is null: {{eq: null}}.",
            )
    return condition and {what.columns[name]: asked for name, asked in condition.items()}


def _columns(info: GraphQLResolveInfo[Asking], what: Subscribed) -> list[str] | None:
    if not what.by_patch:
        return None
    chosen = selected(info, "items", "patch")
    return sorted(what.columns[name] for name in chosen if name in what.columns) or None
