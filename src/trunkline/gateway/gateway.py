"""`Gateway`: what all routes share."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from trunkline.core import telemetry
from trunkline.core.errors import NotFound, Unavailable
from trunkline.gateway import schema
from trunkline.gateway.auth import Authenticator
from trunkline.gateway.connections import Connections
from trunkline.gateway.feeds import Feed, Feeds
from trunkline.gateway.roles import Roles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from graphql import GraphQLSchema

    from trunkline.gateway.auth import Identity
    from trunkline.gateway.settings import GatewaySettings
    from trunkline.live.models import LiveTable
    from trunkline.platform import Platform

logger = telemetry.get_logger(__name__)

_LOOK_EVERY = 5.0  # seconds for which a schema is believed
_LOOK_AGAIN = 0.5  # seconds, where a query asks for what is not in it
HEARTBEAT = 15.0  # seconds of silence


class Gateway:
    """The clients, who may use them, the streams that are open, and the schema of GraphQL."""

    def __init__(
        self,
        platform: Platform,
        settings: GatewaySettings,
        *,
        own_role: str,
        host: str = "",
        insecure: bool = False,
        cors: Iterable[str] = (),
    ):
        self.platform = platform
        self.settings = settings
        self.host = host
        self.insecure = insecure
        self.cors = tuple(cors)
        self.authenticator = Authenticator(settings, own_role=own_role, insecure=insecure)
        self.connections = Connections(settings)
        self.feeds = Feeds(settings.gateway_streams)
        self.stopping = asyncio.Event()
        self._roles = None if insecure else Roles(platform.db)
        self._schema: GraphQLSchema | None = None
        self._tables: list[LiveTable] = []
        self._looked = 0.0
        self._looking = asyncio.Lock()

    async def admit(self, token: str | None) -> Identity:
        """Who has this token, or none, and may act here; raises `Unauthenticated`."""
        if token and self.authenticator.key_set is not None:
            await self.authenticator.key_set.learn(token)
        identity = self.authenticator.identify(token)
        if self._roles is not None and identity.role is not None:
            await self._roles.check(identity.role)
        return identity

    async def begin(self) -> None:
        """Have what is needed to tell who asks."""
        if self.authenticator.key_set is not None:
            await self.authenticator.key_set.open()

    def open(
        self,
        identity: Identity,
        relation: str,
        *,
        condition: Mapping[str, Any] | None = None,
        changes: Iterable[str] | None = None,
        columns: Iterable[str] | None = None,
        after: str | None = None,
    ) -> AbstractAsyncContextManager[Feed]:
        """A stream of a live table, for one who asks."""
        stream = self.platform.live.stream(
            relation,
            condition=condition,
            changes=changes,
            columns=columns,
            after=after,
            role=identity.role,
            settings=identity.settings,
            heartbeat=HEARTBEAT,
        )
        return self.feeds.open(stream, identity)

    async def tables(self, *, again: bool = False) -> list[LiveTable]:
        """The live tables as they were seconds ago; with ``again``, hardly any time ago."""
        await self.schema(again=again)
        return self._tables

    async def table(self, name: str) -> LiveTable:
        """A live table, by its name among them or with its schema."""
        for again in (False, True):
            for table in await self.tables(again=again):
                if name in {table.name, table.relation}:
                    return table
        raise NotFound(f'"{name[:100]}" is not a live table.', hint="GET /v1/live lists them.")

    async def schema(self, *, again: bool = False) -> GraphQLSchema:
        """The schema; who subscribed with another one goes on with it."""
        async with self._looking:
            age = time.monotonic() - self._looked
            if self._schema is None or age > (_LOOK_AGAIN if again else _LOOK_EVERY):
                await self._look()
            assert self._schema is not None
            return self._schema

    async def stop(self, within: float) -> None:
        """End all streams in good order, and begin none."""
        self.stopping.set()
        await self.feeds.stop(within)
        if self.authenticator.key_set is not None:
            await self.authenticator.key_set.close()

    async def _look(self) -> None:
        try:
            tables = await self.platform.live.tables()
        except Unavailable as error:
            if self._schema is None:
                raise
            logger.warning("schema not looked at", error=str(error))
        else:
            if self._schema is None or _shape(tables) != _shape(self._tables):
                self._schema = schema.build(tables)
            self._tables = tables
        self._looked = time.monotonic()


def _shape(tables: Iterable[LiveTable]) -> list[Any]:
    """What the schema depends on."""
    return [
        (table.relation, table.name, table.key_columns, table.columns, table.comment)
        for table in tables
    ]
