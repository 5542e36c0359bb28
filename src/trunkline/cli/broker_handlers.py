"""``trunkline broker worker`` and ``dead``: handlers at work, and what they left."""

import sys
from dataclasses import replace
from typing import Annotated, Any

import typer

from trunkline.cli.asking import Yes, ask
from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command, flag, run_async
from trunkline.cli.output import say
from trunkline.core.words import counted

dead = commands("Events that handlers failed with for good.")

_LISTED = ("retry", "group_name", "handler", "topic", "key", "attempts", "error", "behind")

Group = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Of this group.")]
Handler = Annotated[str | None, typer.Option(metavar="HANDLER", help="Of this handler.")]
Letters = Annotated[
    list[int] | None, typer.Argument(metavar="NUMBER", help="Dead letters by their numbers.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, example="trunkline broker worker shop.handlers:app", panel="Handlers")(worker)
    command(
        app,
        "handler-delete",
        example="trunkline broker handler-delete billing old_bill --yes",
        panel="Handlers",
    )(handler_delete)
    app.add_typer(dead, name="dead", rich_help_panel="Handlers")


def worker(
    invocation: Invocation,
    app: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:APP", help="The App as module:name, importable from this directory."
        ),
    ],
    no_services: Annotated[
        bool, flag("--no-services", help="Run no background services; trunkline up must run.")
    ] = False,
) -> None:
    """Run the handlers of an app until interrupted."""
    run_async(_worker(invocation, app, services=not no_services))


def handler_delete(
    invocation: Invocation,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    handler: Annotated[str, typer.Argument(metavar="HANDLER", help="The handler.")],
    yes: Yes = False,
) -> None:
    """Delete a handler with its positions and dead letters."""
    from trunkline.broker import handler_calls

    with invocation.session() as session:
        ask(f"Delete {handler} of {group} with its positions and dead letters?", yes=yes)
        session.run(handler_calls.handler_delete(group, handler))
    say(f"Deleted {handler} of {group}.")


@command(dead, "list", example="trunkline broker dead list --group billing", reads=True)
def list_dead(invocation: Invocation, group: Group = None, handler: Handler = None) -> None:
    """List dead letters, newest first."""
    from trunkline.broker import handler_calls

    with invocation.session() as session:
        rows = session.run(handler_calls.dead_list(group, handler=handler))
    invocation.print(rows, columns=_LISTED, nothing="No dead letters.")


@command(dead, "show", example="trunkline broker dead show 17", reads=True)
def show_dead(
    invocation: Invocation,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The dead letter.")],
) -> None:
    """Show one dead letter: the event and the error of every attempt."""
    from trunkline.broker import handler_calls

    with invocation.session() as session:
        call = replace(handler_calls.dead_show(number), json_text=True)
        invocation.print_one(session.run(call))


@command(dead, "retry", example="trunkline broker dead retry --group billing --handler bill")
def retry_dead(
    invocation: Invocation,
    numbers: Letters = None,
    group: Group = None,
    handler: Handler = None,
) -> None:
    """Retry dead letters: some, or all of a handler."""
    from trunkline.broker import handler_calls

    total = _each(invocation, handler_calls.dead_retry, numbers, group, handler)
    say(f"{_letters(total)} tried again.")


@command(dead, "discard", example="trunkline broker dead discard 17 18 --yes")
def discard_dead(
    invocation: Invocation,
    numbers: Letters = None,
    group: Group = None,
    handler: Handler = None,
    yes: Yes = False,
) -> None:
    """Discard dead letters: some, or all of a handler; events behind them continue."""
    from trunkline.broker import handler_calls

    which = f"all dead letters of {handler or group}"
    if numbers:
        which = counted(len(numbers), "dead letter")
    if numbers or handler or group:  # else the call says what is missing
        ask(f"Give {which} up?", yes=yes)
    total = _each(invocation, handler_calls.dead_discard, numbers, group, handler)
    say(f"{_letters(total)} discarded.")


def _letters(n: int) -> str:
    return counted(n, "dead letter is", "dead letters are")


def _each(
    invocation: Invocation,
    build: Any,
    numbers: list[int] | None,
    group: str | None,
    handler: str | None,
) -> int:
    with invocation.session() as session, session.connection.transaction():
        if not numbers:
            return int(session.run(build(None, group_name=group, handler=handler)))
        given = {"group_name": group, "handler": handler}
        return sum(session.run(build(number, **given)) for number in numbers)


async def _worker(invocation: Invocation, path: str, *, services: bool) -> None:
    from trunkline.app import load
    from trunkline.core import migrate, telemetry

    sys.path.insert(0, "")
    app = load(path)
    named = Invocation(app.dsn) if invocation == Invocation() else invocation
    with named.target() as target:
        if target.server is not None:
            migrate.install(target.dsn)
        telemetry.configure(invocation.settings().log_level)
        app.dsn = target.dsn
        await app.run(services=services)
