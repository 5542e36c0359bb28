"""An async function of the user's as a downstream."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from trunkline.core.errors import Invalid
from trunkline.tube.downstreams.base import Downstream, Page
from trunkline.tube.models import Change, Version

Deliver = Callable[[Sequence[Change]], Awaitable[Mapping[Change, str] | None]]
Older = Callable[[str, int | None, Version, str | None, int], Awaitable[Page]]


class CallableDownstream(Downstream):
    """Calls ``deliver(changes)`` with documents and deletes alike (``change.document is None``).

    It may return the changes that failed with a reason each, and raise OSError, TimeoutError or
    `Unavailable` when its server is away. Comparing versions is up to it. Without ``older_than``
    (see `Downstream.older_than`) nothing is collected after a backfill or TRUNCATE.
    """

    def __init__(self, deliver: Deliver, *, older_than: Older | None = None):
        self._deliver = deliver
        self._older_than = older_than

    @classmethod
    def load(cls, *, target: str, older_than: str | None = None) -> CallableDownstream:
        """From ``"module:function"``."""
        return cls(_find(target), older_than=None if older_than is None else _find(older_than))

    async def upsert(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._deliver(changes) or {}

    async def delete(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._deliver(changes) or {}

    async def older_than(
        self, relation: str, shard: int | None, version: Version, after: str | None, limit: int
    ) -> Page:
        if self._older_than is None:
            return Page([])
        return await self._older_than(relation, shard, version, after, limit)


def _find(target: str) -> Any:
    module, _, name = target.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise Invalid(
            f'"{target}" cannot be loaded: {error}.', hint='Expected "package.module:function".'
        ) from None
