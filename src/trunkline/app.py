"""`App`: handlers of events, registered by a decorator and run by one call.

::

    app = trunkline.App()

    @app.on("orders.*", group="billing")
    async def bill(order: Order) -> None: ...

    asyncio.run(app.run())
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar

from trunkline.broker import handlers
from trunkline.broker.attempts import Shared
from trunkline.core import telemetry
from trunkline.core.arguments import checked
from trunkline.core.errors import BadRequest, Conflict, Invalid, NotFound, TrunklineError
from trunkline.core.maintain import Maintainer
from trunkline.core.service import Supervisor
from trunkline.core.settings import Settings
from trunkline.platform import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from datetime import datetime

    import psycopg

    from trunkline.broker.attempts import Attempt
    from trunkline.broker.handlers import Condition, Handler, Pattern, Split
    from trunkline.broker.stream import EventStream
    from trunkline.broker.worker import HandlerWorker
    from trunkline.platform import Platform

logger = telemetry.get_logger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])


class App:
    """Handlers of events and what they share: one connection pool, one lease."""

    def __init__(
        self,
        dsn: str | None = None,
        *,
        install: bool | None = None,
        name: str | None = None,
        **settings: Any,
    ):
        self.dsn = dsn
        self._install = install
        self._name = name
        self._explicit = settings
        self.settings = Settings.load(**settings)
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._platform: Platform | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._closing: asyncio.Task[None] | None = None
        self.running: Sequence[HandlerWorker] = ()
        """The workers that are at work, one for each handler."""

    def on(
        self,
        pattern: Pattern = None,
        *,
        group: str,
        condition: Condition = None,
        params: Mapping[str, Any] | None = None,
        name: str | None = None,
        retry: Sequence[float] = handlers.RETRY,
        timeout: float = 30.0,
        batch: int = 1,
        split_by: Split | None = None,
        ordering: str = "strict",
        from_time: datetime | None = None,
        from_position: int | None = None,
    ) -> Callable[[Function], Function]:
        """Register the function below as a handler of a group.

        It gets the events of the topics that fit ``pattern`` (one or several; ``orders.*``,
        ``orders.#``) and for which ``condition`` holds: a dict, or SQL over ``e`` and ``s``. A
        failure is tried again after each of the seconds of ``retry``, then it is a dead letter;
        what takes longer than ``timeout`` seconds has failed. With ``batch`` above 1 it gets a
        list, ``split_by`` of an event says which of them belong into one call. ``ordering`` says
        whether a failed event holds back later ones of its key (``strict``) or not (``skip``).
        Without ``from_time`` or ``from_position`` a new handler begins with what is published
        after it was registered. ``name`` is what its position is kept under: the function's name,
        unless another is given.
        """
        # Classes that are made in a function are known only there.
        names = dict(sys._getframe(1).f_locals)  # noqa: SLF001

        def register(function: Function) -> Function:
            handler = handlers.make(
                function,
                pattern,
                group=group,
                condition=condition,
                params=params,
                name=name,
                retry=retry,
                timeout=timeout,
                batch=batch,
                split_by=split_by,
                ordering=ordering,
                from_time=from_time,
                from_position=from_position,
                names=names,
            )
            if (handler.group, handler.name) in self._handlers:
                raise Conflict(
                    f'group "{handler.group}" has a handler "{handler.name}" already.',
                    hint="Give one of them a name: @app.on(..., name=...).",
                )
            self._handlers[handler.group, handler.name] = handler
            return function

        return register

    @property
    def handlers(self) -> Sequence[Handler]:
        """The handlers that are registered."""
        return tuple(self._handlers.values())

    @property
    def platform(self) -> Platform:
        """The clients; only while the app is open."""
        if self._platform is None:
            raise BadRequest(
                "the app is not open.", hint="Use it in a handler, or within: async with app."
            )
        return self._platform

    async def open(self) -> None:
        """Connect; safe to call twice."""
        if self._platform is None:
            self._platform = await connect(
                self.dsn, install=self._install, name=self._name, **self._explicit
            )

    async def close(self) -> None:
        """Let go of everything; safe to call twice."""
        platform, self._platform = self._platform, None
        if platform is not None:
            self._closing = asyncio.create_task(self._close(platform))
            await asyncio.shield(self._closing)

    async def _close(self, platform: Platform) -> None:
        if self._work:  # a scope of anyio does not wait for handlers that are at work
            await asyncio.wait(self._work)
        await platform.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def publish(
        self,
        topic: str,
        payload: Any,
        *,
        key: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        deliver_at: datetime | None = None,
        on: psycopg.AsyncConnection[Any] | None = None,
    ) -> int:
        """Publish an event, in the transaction of ``on`` if given; its id."""
        return await self.platform.broker.publish(
            topic, payload, key=key, metadata=metadata, deliver_at=deliver_at, on=on
        )

    def stream(
        self,
        pattern: Pattern = None,
        *,
        condition: Condition = None,
        params: Mapping[str, Any] | None = None,
        after: str | None = None,
    ) -> EventStream:
        """Events for whoever looks: ``async for event in app.stream("orders.*")``.

        From now on, or after the token of an event. Nothing is kept, and nothing is tried again.
        """
        return self.platform.broker.stream(pattern, condition=condition, params=params, after=after)

    def wrap(self, make: Callable[[Handler], Handler]) -> None:
        """Put what is made of each handler in its place; before they are run."""
        self._handlers = {place: make(handler) for place, handler in self._handlers.items()}

    async def register(self) -> None:
        """Make the subscriptions of all handlers: what is published from now on waits for them."""
        async with self.opened():
            for worker in self.workers():
                await worker.register()

    def workers(self, tell: Callable[[Attempt], None] | None = None) -> list[HandlerWorker]:
        """A worker for each handler; ``tell`` hears of everything they try."""
        shared = Shared(asyncio.Semaphore(max(1, self.settings.pool_max // 2)))
        return [
            self.platform.broker.worker(
                handler,
                read_ahead=self.settings.read_ahead,
                shared=shared,
                tell=tell,
            )
            for handler in self.handlers
        ]

    @checked
    async def run(self, stop: asyncio.Event | None = None, *, services: bool = True) -> None:
        """Run the handlers until ``stop`` is set, or SIGTERM or SIGINT comes.

        Then nothing more is begun, handlers that are at work may finish, and others can take over
        at once. With ``services`` the events are also numbered and matched here; any number of
        processes may do so.
        """
        if not isinstance(stop, asyncio.Event | None):
            raise Invalid(f"stop is an asyncio.Event, got {stop!r:.100}.")
        async with self.opened():
            workers = self.workers()
            for worker in workers:
                await worker.register()
            background = [Maintainer(self.platform.db), *self.platform.broker.services()]
            supervisor = Supervisor(background if services else [])
            work = asyncio.create_task(self._run(workers, supervisor, stop))
            self._work.add(work)
            work.add_done_callback(self._work.discard)
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                if not work.cancelling():  # once: what is at work may finish
                    work.cancel()
                await asyncio.wait({work})
                raise
            work.result()

    async def _run(
        self, workers: Sequence[HandlerWorker], supervisor: Supervisor, stop: asyncio.Event | None
    ) -> None:
        self.running = workers
        names = [f"{handler.group}: {handler.name}" for handler in self.handlers]
        logger.info("running", handlers=names)
        try:
            await _run(workers, supervisor, stop)
        finally:
            self.running = ()
        logger.info("stopped")

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Platform]:
        """Open for the block, unless it is open anyway."""
        ours = self._platform is None
        await self.open()
        try:
            yield self.platform
        finally:
            if ours:
                await self.close()


def load(path: str) -> App:
    """The app with handlers that ``module:name`` names."""
    module_name, separator, name = path.partition(":")
    is_file = "/" in module_name or module_name.endswith(".py")
    if is_file or not module_name or not separator or not name:
        raise BadRequest(
            f'expected module:app, got "{path}".',
            hint="Name the module as an import does, for example shop.handlers:app",
        )
    try:
        module = import_module(module_name)
    except TrunklineError:
        raise  # it says itself what is wrong, and what to do
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module_name}.".startswith(f"{missing}."):
            raise NotFound(
                f"there is no module {missing}.",
                hint="Run the command from the directory that contains it, or set PYTHONPATH.",
            ) from error
        raise Invalid(
            f"module {module_name} cannot be imported: {type(error).__name__}: {error}.",
            hint="Run it again with --debug to see where.",
        ) from error
    app = getattr(module, name, None)
    if not isinstance(app, App):
        raise NotFound(f'module {module_name} has no App named "{name}".')
    if not app.handlers:
        raise Invalid(f"{path} has no handlers.", hint="Register them: @app.on(...)")
    return app


async def _run(
    workers: Sequence[HandlerWorker], supervisor: Supervisor, stop: asyncio.Event | None
) -> None:
    """Run until told to stop; a worker that ends untold has met what no worker outlives."""
    told, ending = stop or asyncio.Event(), asyncio.Event()
    tasks = {
        asyncio.create_task(worker.run(ending), name=worker.handler.name) for worker in workers
    }
    supervising = asyncio.create_task(supervisor.run(told))
    stopped = asyncio.create_task(told.wait())
    try:
        await asyncio.wait({supervising, stopped, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        ending.set()
        await asyncio.gather(supervisor.stop(), *(asyncio.wait({task}) for task in tasks))
        await asyncio.wait({supervising})
    for task in (*tasks, supervising):
        task.result()
