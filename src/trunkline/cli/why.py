"""``trunkline why``: what became of an event."""

from typing import Annotated

import typer

from trunkline.cli.invocation import Invocation, command


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="trunkline why 1042", reads=True)(why)


def why(
    invocation: Invocation,
    event: Annotated[
        str, typer.Argument(metavar="EVENT", help="The id of the event, a number or its text.")
    ],
) -> None:
    """Trace an event through every hop; exit code 3 if it is unknown."""
    from trunkline.broker import calls

    asked = calls.why(event)
    with invocation.session() as session:
        hops = session.run(asked)
    invocation.print(hops)
