"""`Platform`: a client per capability over one connection pool. It holds, it does not do."""

from __future__ import annotations

import asyncio
import atexit
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, Self

from trunkline.broker.client import Broker, SyncBroker
from trunkline.core import migrate
from trunkline.core.db import AsyncDb, Db
from trunkline.core.embedded import Target, resolve
from trunkline.core.errors import BadRequest
from trunkline.core.keeper import ServerKeeper
from trunkline.core.lease import ProcessLease
from trunkline.core.listen import Listener, Notifier
from trunkline.core.maintain import Maintainer
from trunkline.core.objects import Objects, SyncObjects
from trunkline.core.portal import Portal
from trunkline.core.quiet import Commits
from trunkline.core.settings import Settings
from trunkline.kv.client import Kv, SyncKv
from trunkline.live.client import Live, SyncLive
from trunkline.log.client import Log, SyncLog
from trunkline.tube.client import SyncTubes, Tubes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator, Sequence

    import psycopg

    from trunkline.core.service import Service


class Platform:
    """Trunkline for asynchronous code; made by `connect`."""

    def __init__(self, target: Target, settings: Settings, *, name: str | None = None):
        self.db = AsyncDb(
            target.dsn,
            pool_max=settings.pool_max,
            prepare=settings.prepare,
            connect_timeout=settings.connect_timeout,
        )
        self._target = target
        self._closing: asyncio.Task[None] | None = None
        self._listener = Listener(self.db.connect)
        self._lease = ProcessLease(self.db, name=name, listener=self._listener)
        self._listener.attend = self._lease.attend
        self._notifier = Notifier(self.db.connect)
        self.log = Log(self.db, lease=self._lease, listener=self._listener, notifier=self._notifier)
        self.broker = Broker(self.db, lease=self._lease, listener=self._listener)
        self.live = Live(self.db, lease=self._lease, listener=self._listener)
        self.tube = Tubes(self.db, lease=self._lease, listener=self._listener)
        self.kv = Kv(self.db, lease=self._lease, listener=self._listener)
        self.objects = Objects(self.db)

    @property
    def dsn(self) -> str:
        """Where the database is."""
        return self._target.dsn

    @property
    def listener(self) -> Listener:
        """What hears of news, for streams over connections of others."""
        return self._listener

    @property
    def notifier(self) -> Notifier:
        """What tells of news."""
        return self._notifier

    def services(self) -> list[Service]:
        """The background work that ``trunkline up`` runs."""
        commits, server = Commits(), self._target.server
        return [
            *([ServerKeeper(server)] if server else []),
            Maintainer(self.db),
            *self.broker.services(commits),
            *self.live.services(),
            *self.tube.services(commits),
            *self.kv.services(commits),
        ]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection inside a transaction that commits at the end of the block."""
        async with self.db.transaction() as connection:
            yield connection

    async def close(self) -> None:
        """Finish what is under way and let go of everything. Safe to call twice.

        Who stops waiting for it does not keep it from being done.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="close")
        elif self._closing.done():
            return
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        async with AsyncExitStack() as last:  # whatever fails, the rest is closed too
            last.push_async_callback(self._leave_server)
            last.push_async_callback(self.db.close)
            last.push_async_callback(self._notifier.close)
            last.push_async_callback(self._listener.close)
            last.push_async_callback(self._lease.close)
            last.push_async_callback(self.broker.close)
            last.push_async_callback(self.live.close)
            last.push_async_callback(self.kv.close)
            await self.log.close()

    async def _leave_server(self) -> None:
        try:
            await asyncio.to_thread(self._target.close)
        except RuntimeError:  # the interpreter ends, and no thread can be started any more
            self._target.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


class SyncPlatform:
    """Trunkline for blocking code; made by `connect_sync`."""

    def __init__(self, target: Target, settings: Settings, *, name: str | None = None):
        self.db = Db(target.dsn, prepare=settings.prepare, connect_timeout=settings.connect_timeout)
        self._portal = Portal()
        self._closed = False
        atexit.register(self.close)
        self._platform = self._portal.ask(Platform, target, settings, name=name)
        self.log = SyncLog(self.db, self._portal, self._platform.log)
        self.broker = SyncBroker(self.db, self._portal, self._platform.broker)
        self.live = SyncLive(self.db, self._portal, self._platform.live)
        self.tube = SyncTubes(self.db)
        self.kv = SyncKv(self.db, self._portal, self._platform.kv)
        self.objects = SyncObjects(self.db)

    @property
    def dsn(self) -> str:
        """Where the database is."""
        return self._platform.dsn

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection inside a transaction that commits at the end of the block."""
        with self.db.transaction() as connection:
            yield connection

    def close(self) -> None:
        """Finish what is under way and let go of everything. Safe to call twice.

        A forked child leaves all of it to its parent.
        """
        if self._closed or self._portal.forked:
            return
        self._closed = True
        atexit.unregister(self.close)
        try:
            self._portal.call(self._platform.close())
        finally:
            self._portal.close()
            self.db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Connecting:
    """What `connect` returns: ``tl = await connect()``, or ``async with connect() as tl``."""

    def __init__(
        self,
        dsn: str | None,
        *,
        install: bool | None,
        compat: Sequence[str],
        name: str | None,
        settings: Any,
    ):
        self._dsn = dsn
        self._install = install
        self._compat = compat
        self._name = name
        self._explicit = settings
        self._platform: Platform | None = None

    def __await__(self) -> Generator[Any, None, Platform]:
        return self._connect().__await__()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"no {name} yet: write tl = await connect(), or tl = connect_sync().")

    def __enter__(self) -> NoReturn:
        raise TypeError("write async with connect() as tl, or with connect_sync() as tl.")

    def __exit__(self, *_error: object) -> None: ...

    async def __aenter__(self) -> Platform:
        self._platform = await self._connect()
        return self._platform

    async def __aexit__(self, *_error: object) -> None:
        if self._platform is not None:
            await self._platform.close()

    async def _connect(self) -> Platform:
        settings = Settings.load(**self._explicit)
        target = await asyncio.to_thread(
            _open, self._dsn, settings, install=self._install, compat=self._compat
        )
        return Platform(target, settings, name=self._name)


def connect(
    dsn: str | None = None,
    *,
    install: bool | None = None,
    compat: Sequence[str] = (),
    name: str | None = None,
    **settings: Any,
) -> Connecting:
    """Connect to a Postgres; without a DSN (also none in the environment) to the embedded one.

    The schema is installed into the embedded server by itself; elsewhere with ``install=True``, or
    beforehand with ``trunkline db install``. ``compat`` names compatibility schemas to install too.
    """
    return Connecting(dsn, install=install, compat=compat, name=name, settings=settings)


def connect_sync(
    dsn: str | None = None,
    *,
    install: bool | None = None,
    compat: Sequence[str] = (),
    name: str | None = None,
    **settings: Any,
) -> SyncPlatform:
    """The blocking twin of `connect`."""
    loaded = Settings.load(**settings)
    target = _open(dsn, loaded, install=install, compat=compat)
    return SyncPlatform(target, loaded, name=name)


def _open(
    dsn: str | None, settings: Settings, *, install: bool | None, compat: Sequence[str]
) -> Target:
    if compat and install is False:
        raise BadRequest("compat installs schemas, install=False forbids it.")
    target = resolve(dsn, settings)
    try:
        if install or compat or (install is None and target.server is not None):
            migrate.install(target.dsn, compat=compat)
        else:
            migrate.check(
                target.dsn, hint="Run: trunkline db install, or connect with install=True."
            )
    except BaseException:
        target.close()
        raise
    return target
