"""``trunkline spark replay``: messages into a topic again."""

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
    )(replay)


def replay(
    invocation: Invocation,
    origin: Annotated[
        str, typer.Argument(metavar="ORIGIN", help="topic:NAME, delta:PATH or parquet:PATH.")
    ],
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the messages go.")],
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only messages from then on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only messages before then.")
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
    """Append the messages of a lake, an archive or a topic to a topic."""
    from trunkline.spark.jobs import replay as job

    def check(dsn: str) -> None:
        job.check(dsn, origin, topic, since=since, until=until)

    with running(invocation, "replay", master=master, remote=remote, conf=conf, check=check) as (
        spark,
        dsn,
        progress,
    ):
        done = job.replay(
            spark,
            origin,
            topic,
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
