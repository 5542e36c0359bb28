"""``trunkline spark archive``: sealed segments of topics go to the lake."""

from typing import Annotated

import typer

from trunkline.cli.invocation import Invocation, command
from trunkline.cli.spark import Conf, DryRun, Master, Remote, running


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(
        app,
        example="trunkline spark archive orders --location /lake/topics",
        reads=True,
        needs="spark",
    )(archive)


def archive(
    invocation: Invocation,
    location: Annotated[
        str,
        typer.Option(metavar="PLACE", help="A folder or URI; each topic gets a folder in it."),
    ],
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC", help="Topics; else all that ask to be archived."),
    ] = None,
    format: Annotated[  # noqa: A002
        str, typer.Option(metavar="delta|parquet", help="A Delta table, or plain files.")
    ] = "delta",
    dry_run: DryRun = False,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Copy sealed segments of topics to files; then they may leave the database."""
    from trunkline.spark import connection
    from trunkline.spark.jobs import archive as job

    nothing = "Nothing to archive."

    def planned(dsn: str) -> list[job.ArchivedTopic]:
        return job.planned(connection.db(dsn), topics or None, location=location, format=format)

    if dry_run:
        with invocation.session() as session:
            invocation.print(planned(session.dsn), nothing=nothing)
        return

    with running(invocation, "archive", master=master, remote=remote, conf=conf, check=planned) as (
        spark,
        dsn,
        progress,
    ):
        done = job.archive(
            spark, topics or None, location=location, format=format, dsn=dsn, progress=progress
        )
    invocation.print(done, nothing=nothing)
