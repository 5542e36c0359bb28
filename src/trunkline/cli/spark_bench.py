"""``trunkline spark bench``: reading, writing, streams and syncs, measured."""

from typing import Annotated

import typer

from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.log_upkeep import measure


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="trunkline spark bench --quick", reads=True, needs="spark")(bench)


def bench(
    invocation: Invocation,
    quick: Annotated[bool, flag("--quick", help="Under a minute: does it work?")] = False,
    full: Annotated[bool, flag("--full", help="With curves up to ten million rows.")] = False,
    only: Annotated[
        str | None, typer.Option(metavar="CELLS", help="Only these, with commas: read,write.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Turns per side; default: 3.")
    ] = None,
) -> None:
    """Measure, against Spark's JDBC (TRUNKLINE_JDBC names the driver) in the same run."""
    from trunkline.spark import bench as measuring

    measure(invocation, measuring, quick=quick, full=full, only=only, runs=runs)
