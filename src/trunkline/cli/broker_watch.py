"""``trunkline broker``: watched tables."""

from functools import partial
from typing import Annotated

import typer

from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.output import say

Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table, with its schema.")]

_SHOWN = ("relation", "topic", "operations", "columns", "key_columns", "condition")


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    add = partial(command, app, panel="Tables")
    add(example="trunkline broker watch app.orders --column status", reads=True)(watch)
    add(example="trunkline broker unwatch app.orders")(unwatch)
    add(example="trunkline broker watched", reads=True)(watched)


def watch(
    invocation: Invocation,
    table: Table,
    no_insert: Annotated[bool, flag("--no-insert", help="Publish no events for inserts.")] = False,
    no_update: Annotated[bool, flag("--no-update", help="Publish no events for updates.")] = False,
    no_delete: Annotated[bool, flag("--no-delete", help="Publish no events for deletes.")] = False,
    no_truncate: Annotated[
        bool, flag("--no-truncate", help="Publish no event for a TRUNCATE.")
    ] = False,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME", help="Only this column and the key; repeatable."),
    ] = None,
    condition: Annotated[
        str | None, typer.Option(metavar="EXPRESSION", help="Only rows that meet it.")
    ] = None,
) -> None:
    """Publish an event for each change of a table; repeating the call takes no lock."""
    from trunkline.broker import watch_calls
    from trunkline.core.errors import BadRequest

    if no_insert and no_update and no_delete and no_truncate:
        raise BadRequest("nothing is left to watch.", hint="Leave one of the four --no-... out.")
    call = watch_calls.watch(
        table,
        on_insert=not no_insert,
        on_update=not no_update,
        on_delete=not no_delete,
        on_truncate=not no_truncate,
        columns=column or None,
        condition=condition,
    )
    with invocation.session() as session:
        made = session.run(call)
    invocation.print_one(made, columns=_SHOWN)


def unwatch(invocation: Invocation, table: Table) -> None:
    """Stop publishing changes of a table."""
    from trunkline.broker import watch_calls
    from trunkline.core.errors import NotFound

    with invocation.session() as session:
        was_watched = session.run(watch_calls.unwatch(table))
    if not was_watched:
        raise NotFound(f"table {table} is not watched.", hint="broker_watched() lists them.")
    say(f"Table {table} is no longer watched.")


def watched(
    invocation: Invocation,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="Only this one.")] = None,
) -> None:
    """List watched tables with their columns, conditions and faults."""
    from trunkline.broker import watch_calls

    with invocation.session() as session:
        found = session.run(watch_calls.watched(table))
    invocation.print(found, columns=(*_SHOWN, "parts", "fault"), nothing="No table is watched.")
