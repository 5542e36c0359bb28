"""``trunkline spark replay``: what a lake or a topic holds, into a topic or into keys."""

from typing import Annotated

import typer

from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.spark import Conf, DryRun, Master, Remote, running


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(
        app,
        example="trunkline spark replay topic:orders orders-again --since 2026-01-01",
        reads=True,
        needs="spark",
    )(replay)


def replay(
    invocation: Invocation,
    origin: Annotated[
        str, typer.Argument(metavar="ORIGIN", help="topic:NAME, delta:PATH or parquet:PATH.")
    ],
    to: Annotated[
        str, typer.Argument(metavar="TO", help="Where it goes: a topic, or kv:NAMESPACE.")
    ],
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only messages since this time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only messages before this time.")
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="Only these: offset between 1 and 500."),
    ] = None,
    keep_partitions: Annotated[
        bool, flag("--keep-partitions", help="Each message into the partition it came from.")
    ] = False,
    app_id: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A replay of this name is written once, however often."),
    ] = None,
    dry_run: DryRun = False,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Bring the rows of a lake, an archive or a topic into a topic, or into keys and values."""
    from trunkline.spark.jobs import replay as job

    def check(dsn: str) -> None:
        job.check(dsn, origin, to, since=since, until=until, keep_partitions=keep_partitions)

    with running(invocation, "replay", master=master, remote=remote, conf=conf, check=check) as (
        spark,
        dsn,
        progress,
    ):
        done = job.replay(
            spark,
            origin,
            to,
            dsn=dsn,
            since=since,
            until=until,
            where=where,
            keep_partitions=keep_partitions,
            app_id=app_id,
            dry_run=dry_run,
            progress=progress,
        )
    invocation.print([done])
