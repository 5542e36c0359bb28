"""``trunkline spark``: the jobs of the data pipeline, each on a Spark session of its own."""

from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

app = typer.Typer(
    help="The data pipeline on Spark: archive, sync, backfill, audit, replay.",
    no_args_is_help=True,
)

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL", help="The cluster; else local[*].", rich_help_panel="Spark", envvar="MASTER"
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A Spark Connect server, sc://...", rich_help_panel="Spark"),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE", help="A setting of Spark; may be repeated.", rich_help_panel="Spark"
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done.", metavar="")]


@contextmanager
def running(
    invocation: Invocation,
    app_name: str,
    *,
    master: str | None,
    remote: str | None,
    conf: list[str] | None,
    check: Callable[[str], object] | None = None,
) -> "Iterator[tuple[SparkSession, str]]":
    """A session and the database; what went wrong in a task is said in one line.

    ``check`` is given the database first: what is wrong is said before Spark starts.
    """
    from trunkline.core import migrate
    from trunkline.spark.jobs.job import plain_failures
    from trunkline.spark.session import run_conf, session

    with invocation.target() as target:
        if target.server is not None:
            migrate.install(target.dsn)
        else:
            migrate.check(target.dsn)
        settings = run_conf(conf or [])
        if check is not None:
            check(target.dsn)
        spark = session(app_name, master, remote=remote, **settings)
        try:
            with plain_failures():
                yield spark, target.dsn
        finally:
            spark.stop()
