"""``trunkline broker bench``: publishing, matching and latency, measured."""

from typing import Annotated

import typer

from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.log_upkeep import measure


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="trunkline broker bench --quick", reads=True, panel="Work")(bench)


def bench(
    invocation: Invocation,
    quick: Annotated[bool, flag("--quick", help="About a minute: does it work?")] = False,
    full: Annotated[bool, flag("--full", help="The long forms: half an hour.")] = False,
    only: Annotated[
        str | None, typer.Option(metavar="CELLS", help="Only these, with commas: deliver,latency.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Turns per side; default: 7.")
    ] = None,
) -> None:
    """Measure, against a queue of unread events with a deleting poller in the same run."""
    from trunkline.broker import bench as measuring

    measure(invocation, measuring, quick=quick, full=full, only=only, runs=runs)
