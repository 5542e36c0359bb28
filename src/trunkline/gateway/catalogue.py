"""`Catalogue`: the live tables that each role may select from, and their GraphQL schemas."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trunkline.core import telemetry
from trunkline.core.errors import NotFound, Unavailable
from trunkline.gateway import schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphql import GraphQLSchema

    from trunkline.live.client import Live
    from trunkline.live.models import LiveTable

logger = telemetry.get_logger(__name__)

_BELIEVED_FOR = 5.0  # seconds
_BELIEVED_AGAIN = 0.5  # seconds, where a caller asks for what is not there
_MOST = 1_000  # roles and schemas that are remembered


@dataclass(frozen=True, slots=True)
class _View:
    """The live tables as a role may see them, and when that was read."""

    tables: list[LiveTable]
    read_at: float


class Catalogue:
    """Reads the live tables as each role may see them, every few seconds at most."""

    def __init__(self, live: Live):
        self._live = live
        self._views: dict[str | None, _View] = {}
        self._schemas: dict[frozenset[str], GraphQLSchema] = {}
        self._reading = asyncio.Lock()

    async def tables(self, role: str | None, *, again: bool = False) -> list[LiveTable]:
        """The tables that a role may select from, with the columns that it may select.

        Role None stands for all tables. ``again`` asks for a fresher answer.
        """
        async with self._reading:
            return await self._read(role, again=again)

    async def find(self, name: str) -> LiveTable:
        """A live table by its name among them, or with its schema."""
        for again in (False, True):
            for table in await self.tables(None, again=again):
                if name in {table.name, table.relation}:
                    return table
        raise NotFound(f'"{name[:100]}" is not a live table.', hint="GET /v1/live lists them.")

    async def schema(self, role: str | None, *, again: bool = False) -> GraphQLSchema:
        """The schema of the tables that a role may select from."""
        async with self._reading:
            shown = frozenset(table.relation for table in await self._read(role, again=again))
            tables = await self._read(None, again=again)
            if shown not in self._schemas:
                if len(self._schemas) >= _MOST:
                    self._schemas.clear()
                self._schemas[shown] = schema.build(tables, shown=shown)
            return self._schemas[shown]

    async def _read(self, role: str | None, *, again: bool) -> list[LiveTable]:
        known = self._views.get(role)
        fresh = time.monotonic() - (_BELIEVED_AGAIN if again else _BELIEVED_FOR)
        if known is not None and known.read_at > fresh:
            return known.tables
        try:
            tables = await self._live.tables(role=role)
        except Unavailable as error:
            if known is None:
                raise
            logger.warning("live tables not read", error=str(error))
            tables = known.tables
        if role is None and (known is None or _shape(tables) != _shape(known.tables)):
            self._schemas.clear()
        if len(self._views) >= _MOST:
            self._views.clear()
        self._views[role] = _View(tables, time.monotonic())
        return tables


def _shape(tables: Iterable[LiveTable]) -> list[Any]:
    """What the schema depends on."""
    return [
        (table.relation, table.name, table.key_columns, table.columns, table.comment)
        for table in tables
    ]
