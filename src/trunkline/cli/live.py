"""``trunkline live``: tables that clients subscribe to, and what becomes of their rows."""

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.following import follow as print_as_it_comes
from trunkline.cli.following import format_of
from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command, run_async
from trunkline.cli.output import Format, open_stream, say
from trunkline.cli.stopping import until_told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trunkline.live.models import LiveChange
    from trunkline.live.stream import LiveStream

app = commands("Tables whose changes clients subscribe to, under row-level security.")

Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table, with its schema.")]

_TABLE = ("relation", "name", "key_columns", "tagged", "subscriptions", "fault")
_SUBSCRIPTION = ("subscription", "relation", "changes", "condition", "columns", "role", "process")
_CHANGE = ("token", "change", "event_id", "key", "row", "patch", "at")
_NO_ROLE = "22023"  # what SET ROLE says then
_FOR_PEOPLE = ("at", "change", "key", "row", "patch")


@command(app, example="trunkline live watch app.contacts --role app_user", reads=True)
def watch(
    invocation: Invocation,
    table: Table,
    role: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE", help="This role may subscribe; may be given again."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this column and the key; may be given again."),
    ] = None,
) -> None:
    """Make a table live: clients can subscribe to it."""
    from trunkline.live import calls

    with invocation.session() as session:
        session.run(calls.watch(table, roles=role or (), columns=column or None))
        found = session.run(calls.tables(table))
    invocation.print_one(found[0], columns=_TABLE)


@command(app, example="trunkline live unwatch app.contacts")
def unwatch(invocation: Invocation, table: Table) -> None:
    """Stop publishing changes of a table; its subscriptions end."""
    from trunkline.core.errors import NotFound
    from trunkline.live import calls

    with invocation.session() as session:
        was_live = session.run(calls.unwatch(table))
    if not was_live:
        raise NotFound(f"table {table} is not live.", hint="live_tables() lists those that are.")
    say(f"Table {table} is live no longer.")


@command(app, example="trunkline live tagged", reads=True)
def tagged(invocation: Invocation) -> None:
    """Make tables live whose comment contains @behaviour +subscribable; print what changed."""
    from trunkline.live import calls

    with invocation.session() as session:
        changed = session.run(calls.watch_tagged())
    invocation.print(changed, nothing="Nothing changed.")


@command(app, example="trunkline live allow app_user")
def allow(
    invocation: Invocation,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="The role.")],
) -> None:
    """Let a role subscribe to live tables; it sees the rows that it may select."""
    from trunkline.live import calls

    with invocation.session() as session:
        session.run(calls.allow(role))
    say(f"Role {role} may subscribe to live tables.")


@command(app, example="trunkline live forbid app_user")
def forbid(
    invocation: Invocation,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="The role.")],
) -> None:
    """Revoke what allow granted; subscriptions of the role end."""
    from trunkline.core.errors import NotFound
    from trunkline.live import calls

    with invocation.session() as session:
        was_allowed = session.run(calls.forbid(role))
    if not was_allowed:
        raise NotFound(f"role {role} was not allowed to subscribe to live tables.")
    say(f"Role {role} may subscribe to live tables no longer.")


@command(app, example="trunkline live tables", reads=True)
def tables(
    invocation: Invocation,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="Only this one.")] = None,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="Only tables that this role may select from.")
    ] = None,
) -> None:
    """List live tables with their numbers of subscribers and their faults."""
    from trunkline.live import calls

    with invocation.session() as session:
        found = session.run(calls.tables(table, role=role))
    invocation.print(found, columns=_TABLE, nothing="No table is live.")


@command(app, example="trunkline live subscriptions", reads=True)
def subscriptions(invocation: Invocation) -> None:
    """List subscriptions: table, condition, role, state."""
    from trunkline.live import calls

    with invocation.session() as session:
        found = session.run(calls.subscriptions())
    invocation.print(found, columns=_SUBSCRIPTION, nothing="There are no subscriptions.")


@command(app, example="trunkline live unsubscribe 7")
def unsubscribe(
    invocation: Invocation,
    subscription: Annotated[int, typer.Argument(metavar="NUMBER", help="Its number.")],
) -> None:
    """End a subscription and notify its subscriber."""
    from trunkline.core.errors import NotFound
    from trunkline.live import calls

    with invocation.session() as session:
        was_there = session.run(calls.unsubscribe(subscription))
    if not was_there:
        raise NotFound(f"there is no live subscription {subscription}.")
    say(f"Subscription {subscription} has ended.")


@command(
    app,
    example="""trunkline live follow app.contacts --condition '{"org_id": 7}' --limit 3""",
    reads=True,
)
def follow(
    invocation: Invocation,
    table: Table,
    condition: Annotated[
        str, typer.Option(metavar="JSON", help='By column: {"org_id": {"eq": 7}}.')
    ] = "{}",
    change: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHANGE", help="Only created, updated, deleted or left; may be given again."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Updates only when this changed; may be given again."),
    ] = None,
    after: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Go on after the change with this token.")
    ] = None,
    role: Annotated[
        str | None, typer.Option(metavar="ROLE", help="As this role, with its rights.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Stop after N changes.")
    ] = None,
) -> None:
    """Print changes of rows of a live table as they happen, until interrupted."""
    from trunkline.cli import inputs
    from trunkline.core.errors import Invalid

    asked = inputs.json_value(condition, name="--condition")
    if not isinstance(asked, dict):
        raise Invalid(f"--condition is a JSON object by column, got {condition[:80]}.")
    wanted = {
        "condition": asked,
        "changes": change or None,
        "columns": column or None,
        "after": after,
        "role": role,
    }
    run_async(until_told(partial(_follow, invocation, table, wanted, limit)))


async def _follow(
    invocation: Invocation,
    table: str,
    wanted: dict[str, Any],
    limit: int | None,
    stop: asyncio.Event,
) -> None:
    form = format_of(invocation)
    async with invocation.platform() as platform:
        from trunkline.broker.services import BrokerSequencer
        from trunkline.core.service import Loop

        async with _opened(platform.live.stream(table, **wanted), wanted["role"]) as stream:
            await print_as_it_comes(
                _changes(stream),
                open_stream(form, _FOR_PEOPLE if form is Format.TABLE else _CHANGE),
                limit=limit,
                beside=Loop(BrokerSequencer(platform.db)).run(stop),  # where nobody numbers, we do
                stop=stop,
            )


@asynccontextmanager
async def _opened(stream: "LiveStream", role: str | None) -> "AsyncIterator[LiveStream]":
    from trunkline.core.errors import Forbidden, NotFound

    try:
        await stream.open()
    except Forbidden as error:
        if getattr(error.__cause__, "sqlstate", None) == _NO_ROLE:
            raise NotFound(f"there is no role {role}.") from error
        raise
    async with stream:
        yield stream


async def _changes(stream: "LiveStream") -> "AsyncIterator[LiveChange]":
    async for batch in stream:
        for change in batch.changes:
            yield change
