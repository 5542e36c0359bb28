"""``trunkline up``: everything that runs in the background, in the foreground."""

import gc
import signal
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.invocation import Invocation, command, flag, run_async
from trunkline.cli.output import say

if TYPE_CHECKING:
    from trunkline.core.tcp import Address


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="trunkline up --instance shop")(up)


def up(
    invocation: Invocation,
    install: Annotated[
        bool,
        flag("--install", help="Install the schema first; the embedded server gets it."),
    ] = False,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="Open the embedded server to TCP on loopback; print its DSN and JDBC URL.",
        ),
    ] = None,
) -> None:
    """Run the background services until interrupted, and keep an embedded server running."""
    from trunkline.core.tcp import read_address

    address = None if listen is None else read_address(listen)
    run_async(_run(invocation, install=install, listen=address))


async def _run(invocation: Invocation, *, install: bool, listen: "Address | None") -> None:
    import asyncio

    from trunkline.core import telemetry
    from trunkline.core.service import Supervisor

    events, stop = asyncio.get_running_loop(), asyncio.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        events.call_soon_threadsafe(stop.set)

    async with invocation.platform(install=install, listen=listen) as platform:
        telemetry.configure(invocation.settings().log_level)
        for number in (signal.SIGTERM, signal.SIGINT):  # before a reader of the DSN may send one
            signal.signal(number, end)
        services = platform.services()
        names = [service.name for service in services]
        if listen is None:
            typer.echo(telemetry.redact(platform.dsn))
        else:
            _print_tcp(invocation, listen)
        logger = telemetry.get_logger("trunkline.up")
        logger.info("running", dsn=platform.dsn, services=names)
        gc.freeze()  # the collector need not look again at what is loaded
        await Supervisor(services).run(stop)
        logger.info("stopped")


def _print_tcp(invocation: Invocation, address: "Address") -> None:
    """Print how to connect over TCP, with the password: the caller asked for it."""
    from trunkline.core.embedded import DATABASE, SUPERUSER, Server

    settings = invocation.settings()
    password = Server(settings.home, settings.instance).password()
    say(f"JDBC: {address.jdbc(DATABASE, SUPERUSER, password)}")
    typer.echo(address.dsn(DATABASE, SUPERUSER, password))
