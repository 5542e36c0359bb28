"""Wake-ups: `Listener` hears that something came, `Notifier` says so.

Both are hints. Whoever waits also looks for itself after a timeout, so a wake-up may get lost, and
one that comes for nothing costs a look. Notifications have the one channel ``trunkline``; the
payload is a key such as ``log:orders:3``, and a subscription hears the keys that begin with its
prefix.

A NOTIFY in a writer's own transaction would make commits queue for a lock of the whole database, so
the notifier has a connection of its own, says each key once however often it is told, and does not
wait for the disk.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import psycopg

from trunkline.core import telemetry
from trunkline.core.backoff import Backoff
from trunkline.core.errors import Invalid, Unavailable, is_disconnect
from trunkline.core.waiting import set_within

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Connect = Callable[[], Awaitable[psycopg.AsyncConnection[Any]]]
    Attend = Callable[[psycopg.AsyncConnection[Any]], Awaitable[float]]

CHANNEL = "trunkline"

_LONGEST_KEY = 7999  # bytes, a limit of Postgres
_MOST_PENDING = 10_000
_ANSWER_WITHIN = 10.0  # seconds; a connection that is silent for longer is given up
_GOODBYE_WITHIN = 1.0  # seconds for the last notifications when the notifier is closed
# The setting ends with the statement, so that a pooled connection is given back as it was.
_NOTIFY = """
    select set_config('synchronous_commit', 'off', true), pg_notify(%s, key)
    from unnest(%s::text[]) as key
"""

logger = telemetry.get_logger(__name__)


class Subscription:
    """Hears the keys that begin with a prefix; ``tell`` is called with each, "" for any.

    A class and no generator: a loop that ends closes those that are open all at once, and one
    that is open in another would fail.
    """

    def __init__(self, listener: Listener, prefix: str, tell: Callable[[str], None] | None):
        self.prefix = prefix
        self._listener = listener
        self._tell = tell
        self._woken = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._listener.add(self)
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._listener.remove(self)

    @property
    def woken(self) -> bool:
        """Whether the next `wait` returns at once."""
        return self._woken.is_set()

    def wake(self, key: str = "") -> None:
        """Make the next (or the present) `wait` return True."""
        if self._tell is not None:
            self._tell(key)
        self._woken.set()

    async def wait(self, timeout: float) -> bool:
        """True once something came since the last wait, False when time is over."""
        if not await set_within(self._woken, timeout):
            return False
        self._woken.clear()
        return True


class Listener:
    """One LISTEN connection for the whole process, opened with the first subscription.

    When it is lost it is opened again with back-off, and everybody is woken then, because nobody
    knows what was said meanwhile. Without a connection subscriptions simply hear nothing.

    ``attend`` is called on each new connection, and again after as many seconds as it returns.
    """

    attend: Attend | None = None

    def __init__(
        self, connect: Connect, *, heartbeat: float = 30.0, backoff: Backoff | None = None
    ):
        self._connect = connect
        self._heartbeat = heartbeat
        self._backoff = backoff or Backoff(first=0.1, longest=2.0)
        self._interrupted = False
        self._subscriptions: dict[str, set[Subscription]] = {}  # by prefix
        self._lengths: Counter[int] = Counter()  # of the prefixes
        self._listening = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def subscribe(self, prefix: str, tell: Callable[[str], None] | None = None) -> Subscription:
        """Hear of keys that begin with ``prefix`` inside the block."""
        return Subscription(self, prefix, tell)

    def add(self, subscription: Subscription) -> None:
        """Tell a subscription what it wants to hear; called by it."""
        if self._task is None and not self._closed:
            self._task = asyncio.create_task(self._run(), name="listener")
        self._subscriptions.setdefault(subscription.prefix, set()).add(subscription)
        self._lengths[len(subscription.prefix)] += 1

    def remove(self, subscription: Subscription) -> None:
        """Tell it no more; called by it."""
        prefix = subscription.prefix
        self._lengths -= Counter([len(prefix)])
        self._subscriptions[prefix].discard(subscription)
        if not self._subscriptions[prefix]:
            del self._subscriptions[prefix]

    async def ready(self, timeout: float = 10.0) -> bool:
        """Wait until notifications are heard; False when that takes too long."""
        return await set_within(self._listening, timeout)

    async def close(self) -> None:
        """Stop listening; those who wait are woken once more. Safe to call twice."""
        self._closed = True
        await _end(self._task)
        self._task = None
        self.wake("")

    def wake(self, key: str = "") -> None:
        """Wake the subscriptions that hear a key, or all."""
        prefixes = [key[:length] for length in self._lengths] if key else [*self._subscriptions]
        for prefix in prefixes:
            for subscription in self._subscriptions.get(prefix, ()):
                subscription.wake(key)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except Exception as error:  # noqa: BLE001 - without us there is still polling
                wait = self._backoff.next()
                self._interrupted = True
                logger.info("not listening", error=str(error), retry_after=round(wait, 3))
            finally:
                self._listening.clear()
            await asyncio.sleep(wait)

    async def _listen(self) -> None:
        """Listen until the connection fails."""
        connection = await self._connect()
        try:
            await connection.set_autocommit(True)
            await connection.execute(f"listen {CHANNEL}")
            self._backoff.reset()
            self._listening.set()
            self.wake("")
            if self._interrupted:
                self._interrupted = False
                logger.info("listening again")
            beat_at = time.monotonic() + self._heartbeat
            while True:
                wait = beat_at - time.monotonic()
                if self.attend is not None:
                    wait = min(wait, await self.attend(connection))
                async for notice in connection.notifies(timeout=max(0.0, wait)):
                    self.wake(notice.payload)
                if time.monotonic() < beat_at:
                    continue
                beat_at = time.monotonic() + self._heartbeat
                # A connection that is cut off raises nothing: only a question finds out.
                async with asyncio.timeout(_ANSWER_WITHIN):
                    await connection.execute("select 1")
        finally:
            await connection.close()


class Waker:
    """Sets an event whenever a key with a prefix is heard, from `start` to `close`.

    With ``pace``, at most once in so many seconds.
    """

    def __init__(self, listener: Listener, prefix: str, woken: asyncio.Event, *, pace: float = 0.0):
        self._listener = listener
        self._prefix = prefix
        self._woken = woken
        self._pace = pace
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Listen from now on. Safe to call again."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"waker {self._prefix}")

    async def close(self) -> None:
        """Stop listening. Safe to call twice."""
        await _end(self._task)
        self._task = None

    async def _run(self) -> None:
        async with self._listener.subscribe(self._prefix) as heard:
            while True:
                if await heard.wait(60):
                    self._woken.set()
                    await asyncio.sleep(self._pace)


class Notifier:
    """Says keys to all listeners, each once per ``interval`` at most, from the background.

    What could not be said for want of a connection is said with the next key.
    """

    def __init__(
        self, connect: Connect, *, interval: float = 0.005, backoff: Backoff | None = None
    ):
        self._connect = connect
        self._interval = interval
        self._backoff = backoff or Backoff(first=0.1, longest=10.0)
        self._pending: dict[str, None] = {}
        self._told = asyncio.Event()
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def notify(self, key: str) -> None:
        """Say ``key`` soon; returns at once. From the event loop's thread."""
        if not key or "\0" in key or len(key.encode()) > _LONGEST_KEY:
            raise Invalid(f"a key of a wake-up has 1 to {_LONGEST_KEY} bytes and no NUL.")
        if self._closed or len(self._pending) >= _MOST_PENDING:
            return
        self._pending[key] = None
        self._told.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="notifier")

    async def close(self) -> None:
        """Say what is left to say and close the connection. Safe to call twice."""
        self._closed = True
        self._told.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_GOODBYE_WITHIN)
        await _end(self._task)
        self._task = None
        await self._disconnect()

    async def _run(self) -> None:
        while self._pending or not self._closed:
            await self._told.wait()
            self._told.clear()
            keys = list(self._pending)
            self._pending.clear()
            if not keys:
                continue
            try:
                await self._say(keys)
            except Exception as error:  # noqa: BLE001 - a lost wake-up is harmless
                await self._failed(keys, error)
            else:
                await asyncio.sleep(self._interval)

    async def _say(self, keys: list[str]) -> None:
        async with asyncio.timeout(_ANSWER_WITHIN):
            if self._connection is None:
                self._connection = await self._connect()
                await self._connection.set_autocommit(True)
            await self._connection.execute(_NOTIFY, (CHANNEL, keys))
        self._backoff.reset()

    async def _failed(self, keys: list[str], error: Exception) -> None:
        await self._disconnect()
        if _is_lost(error):
            self._pending = dict.fromkeys(keys) | self._pending
        wait = self._backoff.next()
        logger.debug("not notified", error=str(error), keys=len(keys), retry_after=round(wait, 3))
        await asyncio.sleep(wait)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _is_lost(error: Exception) -> bool:
    """Tell a connection that failed, and may come back, from a statement that never will."""
    if isinstance(error, psycopg.Error):
        return is_disconnect(error)
    return isinstance(error, Unavailable | OSError)


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
