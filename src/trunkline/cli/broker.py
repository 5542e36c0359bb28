"""``trunkline broker``: events."""

import typer

from trunkline.cli.invocation import Invocation, command
from trunkline.cli.output import say

app = typer.Typer(
    help="Events that belong to your transaction, delivered by condition.", no_args_is_help=True
)


@command(app, example="trunkline broker tick", panel="Events")
def tick(invocation: Invocation) -> None:
    """Publish what is due and number what was committed, as the services do all the time."""
    from trunkline.broker import calls

    with invocation.session() as session:
        released = session.run(calls.release())
        numbered = session.run(calls.tick())
    say(f"{released} events were due, {numbered} got a position.")
