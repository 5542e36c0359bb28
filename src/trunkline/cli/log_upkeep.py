"""``trunkline log``: what keeps topics in shape, and what measures them."""

from functools import partial
from typing import Annotated, Any

import typer

from trunkline.cli import output
from trunkline.cli.asking import Yes, ask
from trunkline.cli.invocation import Invocation, Session, command, flag
from trunkline.cli.log import Partition, Topic
from trunkline.cli.output import Format, say


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    add = partial(command, app, panel="Upkeep")
    add(example="trunkline log trim orders --partition 0 --before 1000 --yes", reads=True)(trim)
    add(example="trunkline log compact settings", reads=True)(compact)
    add(example="trunkline log verify orders && echo whole", reads=True)(verify)
    add(example="trunkline log bench --quick", reads=True)(bench)


def trim(
    invocation: Invocation,
    topic: Topic,
    before: Annotated[
        str,
        typer.Option(
            metavar="PLACE", help='The first message to keep: an offset, a time, "30d ago", latest.'
        ),
    ],
    partition: Partition = None,
    yes: Yes = False,
) -> None:
    """Delete messages before an offset or a time."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest
    from trunkline.log import calls

    place = inputs.start(before, option="--before")
    with invocation.session() as session:
        partitions = session.run(calls.describe(topic))
        if partition is None and isinstance(place, int) and len(partitions) > 1:
            raise BadRequest(
                f"{topic} has {len(partitions)} partitions: an offset means another message"
                " in each.",
                hint="Name one with --partition.",
            )
        ask(f"Forget what {topic} holds before {before}?", yes=yes)
        rows = []
        for number in [part.partition for part in partitions] if partition is None else [partition]:
            offset = _offset(session, topic, number, place)
            rows.append(
                {
                    "partition": number,
                    "first_offset": session.run(calls.trim(topic, number, offset)),
                }
            )
    invocation.print(rows)


def compact(invocation: Invocation, topic: Topic, partition: Partition = None) -> None:
    """Compact a topic now: keep only the last value of each key."""
    from trunkline.log import calls

    with invocation.session() as session:
        removed = session.run(calls.compact(topic, partition=partition))
    invocation.print({"partition": number, "removed": count} for number, count in removed.items())


def verify(invocation: Invocation, topic: Topic) -> None:
    """Check that offsets have no gaps; exit code 1 when something is broken."""
    from trunkline.log import calls

    with invocation.session() as session:
        checks = session.run(calls.verify(topic))
    invocation.print(checks)
    if any(check.problem for check in checks):
        raise typer.Exit(1)


def bench(
    invocation: Invocation,
    quick: Annotated[bool, flag("--quick", help="Under a minute, for a first impression.")] = False,
    full: Annotated[bool, flag("--full", help="The long forms: hours and gigabytes.")] = False,
    only: Annotated[
        str | None, typer.Option(metavar="CELLS", help="Only these, with commas: append,consume.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Turns per side; default: 7.")
    ] = None,
) -> None:
    """Measure, against the plain design in the same run."""
    from trunkline.log import bench as measuring

    measure(invocation, measuring, quick=quick, full=full, only=only, runs=runs)


def measure(invocation: Invocation, bench: Any, *, only: str | None, **given: Any) -> None:
    """Run a benchmark; what it found, in the format that was asked for."""
    from trunkline.log.bench import chosen

    chosen(bench.CELLS, only)  # a word that names none is refused before anything is started
    with invocation.session() as session:
        figures = bench.run(session.dsn, progress=say, only=only, **given)
    if not figures["durable"]:
        say("fsync or synchronous_commit is off: these figures mean nothing.")
    if invocation.format is Format.TABLE:
        from trunkline.log.bench.report import curves, table

        output.console().print(table(figures))
        for curve in curves(figures):
            output.console().print(curve)
    elif invocation.format is Format.JSON:
        invocation.print_one(figures)
    else:
        invocation.print(figures["cells"])


def _offset(session: Session, topic: str, partition: int, place: Any) -> int:
    """A place as an offset of a partition."""
    from trunkline.log import calls

    if isinstance(place, int):
        return place
    if not isinstance(place, str):
        return session.run(calls.offset_at(topic, partition, place))
    parts = {part.partition for part in session.run(calls.describe(topic))}
    if partition not in parts:
        return 1  # the call that follows says what is wrong
    return session.run(calls.place(topic, partition, place))
