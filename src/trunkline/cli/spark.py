"""``trunkline spark``: the jobs of the data pipeline, each on a Spark session of its own."""

import logging
import signal
import sys
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from trunkline.spark.jobs.job import Progress

app = commands("The data pipeline on Spark: archive, sync, backfill, audit, replay.")

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
) -> "Iterator[tuple[SparkSession, str, Progress]]":
    """A session, the database and a way to say how far the job is.

    ``check`` is given the database first: what is wrong is said before Spark starts. What went
    wrong in a task is said in one line.
    """
    from pyspark.logger import PySparkLogger

    from trunkline.core import migrate, telemetry
    from trunkline.core.errors import Unavailable
    from trunkline.spark.jobs.job import plain_failures, shown
    from trunkline.spark.session import has_ended, run_conf, session

    logging.getLogger().addHandler(logging.NullHandler())  # Py4J raises what it logs there
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # so does this
    telemetry.configure("warning" if sys.stderr.isatty() else "info")
    with invocation.target() as target:
        if target.server is not None:
            migrate.install(target.dsn)
        else:
            migrate.check(target.dsn)
        settings = run_conf(conf or [])
        if check is not None:
            check(target.dsn)
        spark = session(app_name, master, remote=remote, **settings)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # PySpark's own talks to the JVM
        try:
            with plain_failures(), shown(app_name) as progress:
                yield spark, target.dsn, progress
        except Exception as error:
            if not has_ended():
                raise
            raise Unavailable(
                "Spark ended before the job did: killed, or out of memory.",
                hint="Start it again: what was not committed is done again.",
            ) from error
        finally:
            if not has_ended():
                spark.stop()
