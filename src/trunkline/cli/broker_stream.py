"""``trunkline broker stream`` and ``schedule``."""

import asyncio
from functools import partial
from typing import Annotated, Any

import typer

from trunkline.cli.following import follow, format_of
from trunkline.cli.invocation import Invocation, command, run_async
from trunkline.cli.output import Format, open_stream
from trunkline.cli.stopping import until_told

_FOR_PEOPLE = ("at", "topic", "key", "payload", "token")


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(
        app,
        example="trunkline broker stream 'orders.*' --limit 3",
        reads=True,
        panel="Events",
    )(stream)
    command(app, example="trunkline broker schedule services", reads=True, panel="Services")(
        schedule
    )


def stream(
    invocation: Invocation,
    pattern: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help="Topics: orders.made, orders.*, #.")
    ] = None,
    condition: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="JSON, or SQL over e and s.")
    ] = None,
    params: Annotated[
        str, typer.Option(metavar="JSON", help="What the condition reads as s.params.")
    ] = "{}",
    after: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Go on after the event with this token.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Stop after N events.")
    ] = None,
) -> None:
    """Print events as they come, until interrupted; no position is stored."""
    from trunkline.cli import inputs
    from trunkline.core.errors import Invalid

    given = inputs.json_value(params, name="--params")
    if not isinstance(given, dict):
        raise Invalid(f"--params is a JSON object, got {params[:80]}.")
    run_async(until_told(partial(_stream, invocation, pattern, condition, given, after, limit)))


async def _stream(
    invocation: Invocation,
    pattern: str | None,
    condition: str | None,
    params: dict[str, Any],
    after: str | None,
    limit: int | None,
    stop: asyncio.Event,
) -> None:
    form = format_of(invocation)
    async with invocation.platform() as platform:
        from trunkline.broker.services import BrokerSequencer
        from trunkline.core.service import Loop

        events = platform.broker.stream(
            pattern, condition=condition, params=params, after=after, json_text=True
        )
        await events.open()
        await follow(
            events,
            open_stream(form, _columns(form)),
            limit=limit,
            beside=Loop(BrokerSequencer(platform.db)).run(stop),  # where nobody numbers, we do
            stop=stop,
        )


def _columns(form: Format) -> tuple[str, ...]:
    from dataclasses import fields

    from trunkline.broker.stream import StreamEvent

    return (
        _FOR_PEOPLE if form is Format.TABLE else tuple(field.name for field in fields(StreamEvent))
    )


def schedule(
    invocation: Invocation,
    by_whom: Annotated[
        str | None, typer.Argument(metavar="services|pg_cron", help="Who does the work.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How often pg_cron looks for events.")
    ] = None,
) -> None:
    """Show, or say, who does the background work of the broker."""
    from trunkline.broker import calls
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest

    if by_whom is None and every is not None:
        raise BadRequest(
            "--every goes with who does the work.",
            hint=f"trunkline broker schedule pg_cron --every {every}",
        )
    pause = None if every is None else inputs.duration(every, option="--every")
    with invocation.session() as session:
        if by_whom is not None:
            session.run(calls.schedule(by_whom, every=pause))
        found = session.run(calls.scheduled())
    invocation.print(found)
