"""``trunkline spark``: the jobs of the data pipeline, each on a Spark session of its own."""

import re
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

_OURS = re.compile(r"^trunkline\.core\.errors\.(?P<name>\w+): (?P<text>.+)$", re.MULTILINE)


@contextmanager
def running(
    invocation: Invocation,
    app_name: str,
    *,
    master: str | None,
    remote: str | None,
    conf: list[str] | None,
) -> "Iterator[tuple[SparkSession, str]]":
    """A session and the database; what a task says went wrong is said here in one line."""
    from trunkline.core import errors, migrate
    from trunkline.spark.session import run_conf, session

    with invocation.target() as target:
        if target.server is not None:
            migrate.install(target.dsn)
        else:
            migrate.check(target.dsn)
        spark = session(app_name, master, remote=remote, **run_conf(conf or []))
        try:
            yield spark, target.dsn
        except errors.TrunklineError:
            raise
        except Exception as error:
            if (found := _OURS.search(str(error))) is None:
                raise
            kind = getattr(errors, found["name"], errors.TrunklineError)
            raise kind(found["text"]) from error
        finally:
            spark.stop()
