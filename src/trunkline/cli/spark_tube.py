"""``trunkline spark sync|backfill|audit``: tables and what follows them, on Spark."""

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.output import say
from trunkline.cli.spark import Conf, DryRun, Master, Remote, running

if TYPE_CHECKING:
    from trunkline.spark.jobs.audit import Audit

Tube = Annotated[str, typer.Argument(metavar="TUBE", help="The tube.")]
To = Annotated[
    str,
    typer.Option(
        metavar="TARGET",
        help="delta:PATH or table:NAME; {relation} in it is the name of the table.",
    ),
]
Relation = Annotated[
    str | None, typer.Option(metavar="TABLE", help="Only this table; else all of the tube.")
]
TargetDsn = Annotated[
    str | None,
    typer.Option(metavar="DSN", help="Database of the target table, if it is another one."),
]

_PARTS = ("topic", "partition", "place", "first_offset", "last_offset", "messages", "problem")


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(
        app,
        example="trunkline spark sync lake --to delta:/lake/orders --once",
        reads=True,
        needs="spark",
    )(sync)
    command(
        app,
        example="trunkline spark backfill lake --to delta:/lake/orders",
        reads=True,
        needs="spark",
    )(backfill)
    command(
        app,
        example="trunkline spark audit lake --to delta:/lake/orders --html report.html",
        reads=True,
        needs="spark",
    )(audit)


def sync(
    invocation: Invocation,
    tube: Tube,
    to: To,
    relation: Relation = None,
    target_dsn: TargetDsn = None,
    once: Annotated[bool, flag("--once", help="Deliver what is there, then end.")] = False,
    dry_run: DryRun = False,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Keep a Delta table or a table of a Postgres in step with a tube, until interrupted."""
    from trunkline.spark import connection
    from trunkline.spark.jobs.sync import sync as work
    from trunkline.spark.jobs.sync import waiting
    from trunkline.spark.jobs.targets import pairs
    from trunkline.spark.tube_lanes import refuse_worked

    def check(dsn: str) -> None:
        pairs(tube, to, relation=relation, dsn=dsn, target_dsn=target_dsn)
        if not dry_run:
            refuse_worked(connection.db(dsn), tube)

    if dry_run:
        with invocation.session() as session:
            check(session.dsn)
            invocation.print(waiting(session.dsn, tube), nothing="Nothing waits.")
        return

    with running(invocation, "sync", master=master, remote=remote, conf=conf, check=check) as (
        spark,
        dsn,
        progress,
    ):
        done = work(
            spark,
            tube,
            to,
            relation=relation,
            dsn=dsn,
            target_dsn=target_dsn,
            once=once,
            progress=progress,
            stop=_interrupted(),
        )
    invocation.print([done])


def backfill(
    invocation: Invocation,
    tube: Tube,
    to: To,
    relation: Relation = None,
    target_dsn: TargetDsn = None,
    dry_run: DryRun = False,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Bring whole tables downstream through their tube; killed, it goes on where it was."""
    from trunkline.spark.jobs.backfill import backfill as work
    from trunkline.spark.jobs.backfill import planned
    from trunkline.spark.jobs.targets import pairs
    from trunkline.spark.tube_rows import attached

    def check(dsn: str) -> None:
        pairs(tube, to, relation=None, dsn=dsn, target_dsn=target_dsn)
        if relation is not None:
            attached(dsn, tube, relation)

    if dry_run:
        with invocation.session() as session:
            check(session.dsn)
            invocation.print(planned(session.dsn, tube, relation))
        return

    with running(invocation, "backfill", master=master, remote=remote, conf=conf, check=check) as (
        spark,
        dsn,
        progress,
    ):
        done = work(
            spark,
            tube,
            to,
            relation=relation,
            dsn=dsn,
            target_dsn=target_dsn,
            progress=progress,
            stop=_interrupted(),
        )
    invocation.print([done])


def audit(
    invocation: Invocation,
    tube: Annotated[str | None, typer.Argument(metavar="TUBE", help="The tube.")] = None,
    to: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="What to compare: delta:PATH or table:NAME."),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(metavar="TOPIC", help="Instead: is a topic whole, archive included?"),
    ] = None,
    relation: Relation = None,
    target_dsn: TargetDsn = None,
    repair: Annotated[
        bool, flag("--repair", help="Deliver differing rows again, and wait until both are equal.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a report as HTML.")
    ] = None,
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="For changes that are under way.")
    ] = 60.0,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Does the downstream equal the table, or is a topic whole? The exit code is 1 when not."""
    from trunkline.core.errors import BadRequest
    from trunkline.log import calls
    from trunkline.spark import connection
    from trunkline.spark.jobs import report
    from trunkline.spark.jobs.audit import audit as work
    from trunkline.spark.jobs.audit_topic import audit_topic
    from trunkline.spark.jobs.targets import pairs

    if (topic is None) == (tube is None) or (tube is not None and to is None):
        raise BadRequest("audit takes TUBE and --to, or --topic.")

    def check(dsn: str) -> None:
        if html is not None:
            _insist_on_writing(html)
        if topic is not None:
            connection.db(dsn).run(calls.settings(topic))
        elif tube is not None and to is not None:
            pairs(tube, to, relation=relation, dsn=dsn, target_dsn=target_dsn, written=True)

    with running(invocation, "audit", master=master, remote=remote, conf=conf, check=check) as (
        spark,
        dsn,
        progress,
    ):
        if topic is not None:
            parts = audit_topic(spark, topic, dsn=dsn, progress=progress)
            invocation.print([part.to_json() for part in parts], columns=_PARTS)
            raise typer.Exit(0 if all(part.whole for part in parts) else 1)
        assert tube is not None
        assert to is not None
        found: list[Audit] = work(
            spark,
            tube,
            to,
            relation=relation,
            dsn=dsn,
            target_dsn=target_dsn,
            repair=repair,
            patience=patience,
            progress=progress,
        )
    if html is not None:
        html.write_text(report.page(found), "utf-8")
    invocation.print([one.to_json() for one in found], columns=("relation", "target", "verdict"))
    for one in found:
        say(f"{one.relation}: {one.verdict()}.")
    if not all(one.equal for one in found):
        raise typer.Exit(1)


def _insist_on_writing(file: Path) -> None:
    """An audit takes its time: that its page can be written is seen before."""
    from trunkline.core.errors import BadRequest

    try:
        file.open("a").close()
    except OSError as error:
        raise BadRequest(f"{file} cannot be written: {error.strerror}.") from None


def _interrupted() -> threading.Event:
    """Set by SIGINT and SIGTERM, so that the round under way is finished."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
