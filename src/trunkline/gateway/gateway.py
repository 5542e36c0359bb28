"""`Gateway`: what all routes share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from trunkline.gateway.auth import Authenticator
from trunkline.gateway.catalogue import Catalogue
from trunkline.gateway.connections import Connections
from trunkline.gateway.feeds import Feed, Feeds
from trunkline.gateway.roles import Roles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractAsyncContextManager

    from trunkline.gateway.auth import Identity
    from trunkline.gateway.settings import GatewaySettings
    from trunkline.platform import Platform

HEARTBEAT = 15.0  # seconds of silence


class Gateway:
    """Clients, authentication, open streams, and the catalogue of live tables."""

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
        self.catalogue = Catalogue(platform.live)
        self.connections = Connections(settings)
        self.feeds = Feeds(settings.gateway_streams)
        self.stopping = asyncio.Event()
        self._roles = None if insecure else Roles(platform.db)

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

    async def stop(self, within: float) -> None:
        """End all streams in good order, and begin none."""
        self.stopping.set()
        await self.feeds.stop(within)
        if self.authenticator.key_set is not None:
            await self.authenticator.key_set.close()
