"""``trunkline broker unforwarded``: events that are too large for the log."""

from typing import Annotated

import typer

from trunkline.cli.asking import Yes, ask
from trunkline.cli.invocation import Invocation, command
from trunkline.cli.output import say
from trunkline.core.words import counted

_LISTED = ("topic", "event_id", "event_position", "key", "at", "error")


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, example="trunkline broker unforwarded orders", reads=True, panel="Events")(
        unforwarded
    )
    command(
        app,
        "unforwarded-discard",
        example="trunkline broker unforwarded-discard 17 18 --yes",
        panel="Events",
    )(unforwarded_discard)


def unforwarded(
    invocation: Invocation,
    topic: Annotated[
        str | None, typer.Argument(metavar="TOPIC", help="Only this topic of the log.")
    ] = None,
) -> None:
    """List events that are too large to forward into the log, oldest first."""
    from trunkline.broker import calls

    with invocation.session() as session:
        rows = session.run(calls.unforwarded(topic))
    invocation.print(rows, columns=_LISTED, nothing="Every event fits.")


def unforwarded_discard(
    invocation: Invocation,
    ids: Annotated[list[int], typer.Argument(metavar="EVENT_ID", help="Events by their ids.")],
    yes: Yes = False,
) -> None:
    """Discard events that are too large to forward: all that are named, or none."""
    from trunkline.broker import calls

    ask(f"Forget {counted(len(ids), 'event')}?", yes=yes)
    with invocation.session() as session, session.connection.transaction():
        for event_id in ids:
            session.run(calls.unforwarded_discard(event_id))
    say(f"{counted(len(ids), 'event is', 'events are')} forgotten.")
