"""``trunkline up``: everything that runs in the background, in the foreground."""

import gc
import signal
from types import FrameType
from typing import Annotated

import typer

from trunkline.cli.invocation import Invocation, command, flag, run_async


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="trunkline up --instance shop")(up)


def up(
    invocation: Invocation,
    install: Annotated[
        bool,
        flag("--install", help="Install the schema first; the embedded server gets it."),
    ] = False,
) -> None:
    """Run the background services until told to stop; an embedded server is kept up."""
    run_async(_run(invocation, install=install))


async def _run(invocation: Invocation, *, install: bool) -> None:
    import asyncio

    from trunkline.core import telemetry
    from trunkline.core.service import Supervisor

    events, stop = asyncio.get_running_loop(), asyncio.Event()

    def told(_number: int, _frame: FrameType | None) -> None:
        events.call_soon_threadsafe(stop.set)

    async with invocation.platform(install=install) as platform:
        telemetry.configure(invocation.settings().log_level)
        # Before the DSN is out: whoever reads it may stop us at once.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, told)
        services = platform.services()
        names = [service.name for service in services]
        typer.echo(telemetry.redact(platform.dsn))
        logger = telemetry.get_logger("trunkline.up")
        logger.info("running", dsn=platform.dsn, services=names)
        gc.freeze()  # what is loaded stays: the collector need not look at it again
        await Supervisor(services).run(stop)
        logger.info("stopped")
