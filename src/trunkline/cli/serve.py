"""``trunkline serve``: everything over HTTP."""

import asyncio
import socket
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any

import typer

from trunkline.cli.invocation import Invocation, command, flag, run_async
from trunkline.cli.stopping import until_told


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="trunkline serve --port 8080 --cors https://shop.example")(serve)


def serve(
    invocation: Invocation,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="Port to listen on; 0: any.")
    ] = 8080,
    cors: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Allow pages of this origin; may be repeated."),
    ] = None,
    connections: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Connections with a request; default: half of ulimit -n."
        ),
    ] = None,
    header_seconds: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Time for the head of a request; default: 10."),
    ] = None,
    idle_seconds: Annotated[
        int | None,
        typer.Option(metavar="SECONDS", help="Time between two requests; default: 5."),
    ] = None,
    insecure: Annotated[
        bool,
        flag(
            "--insecure", help="For trying out: requests without a token run as the gateway's role."
        ),
    ] = False,
    with_services: Annotated[
        bool,
        flag("--with-services/--no-services", help="Run the background services too, as up does."),
    ] = True,
) -> None:
    """Serve HTTP, SSE, WebSocket and GraphQL until interrupted."""
    from trunkline.core.extras import needed_for

    with needed_for("the gateway", "gateway"):
        import trunkline.gateway.server  # noqa: F401
    _check_host(host)
    options = {"host": host, "port": port, "cors": cors or [], "insecure": insecure}
    limits = {
        "gateway_connections": connections,
        "gateway_header_seconds": header_seconds,
        "gateway_idle_seconds": idle_seconds,
    }
    given = {name: value for name, value in limits.items() if value is not None}
    run_async(until_told(partial(_serve, invocation, options, given, with_services)))


def _check_host(host: str) -> None:
    """Tell an address that is not ours from a port that is taken."""
    from trunkline.core.errors import BadRequest

    try:
        family, *_ = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind((host, 0))
    except (OSError, UnicodeError) as error:
        raise BadRequest(
            f"cannot listen on {host}: {getattr(error, 'strerror', None) or error}.",
            hint="--host is an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all.",
        ) from None


async def _serve(
    invocation: Invocation,
    options: dict[str, Any],
    given: dict[str, Any],
    with_services: bool,
    stop: asyncio.Event,
) -> None:
    from trunkline.core import telemetry
    from trunkline.core.service import Supervisor
    from trunkline.gateway.server import check, serve
    from trunkline.gateway.settings import GatewaySettings

    settings = GatewaySettings.from_environment(**given)
    check(settings, insecure=options["insecure"], cors=options["cors"])
    async with AsyncExitStack() as stack:
        platform = await stack.enter_async_context(invocation.platform())
        telemetry.configure(settings.log_level)
        logger = telemetry.get_logger("trunkline.serve")
        gateway, address = await stack.enter_async_context(serve(platform, settings, **options))
        services = platform.services() if with_services else []
        if options["insecure"]:
            logger.warning("insecure", meaning="every request acts as the gateway's role")
        typer.echo(address)
        logger.info("serving", address=address, services=[service.name for service in services])
        if services:
            await Supervisor(services).run(stop)
        else:
            await stop.wait()
        logger.info("stopping", streams=len(gateway.feeds))
    logger.info("stopped")
