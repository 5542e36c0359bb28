"""`Invocation`: what every command is given, and `command`, which registers one.

Commands are functions that take an `Invocation` first; `command` adds to each the options that all
share (``--dsn``, ``--instance``, ``--debug``, and the formats where something is read). They may
stand before or after the command's name. Whatever is slow to import is imported inside.
"""

import inspect
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from trunkline.cli import output
from trunkline.cli.helping import Command
from trunkline.cli.output import Format

if TYPE_CHECKING:
    import psycopg

    from trunkline.core.calls import Call
    from trunkline.core.embedded import Target
    from trunkline.core.settings import Settings
    from trunkline.core.tcp import Address
    from trunkline.platform import Platform

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


def flag(*names: str, help: str, panel: str | None = None) -> Any:  # noqa: A002 - as in Typer
    """An option that is there or not."""
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar="")


DSN_HELP = "The database; else TRUNKLINE_DSN, DATABASE_URL, PG*, .env; else the embedded server."

Dsn = Annotated[
    str | None, typer.Option(metavar="DSN", help=DSN_HELP, rich_help_panel="Connection")
]
Instance = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="An embedded server by name.", rich_help_panel="Connection"),
]
Debug = Annotated[bool, flag("--debug", help="Show tracebacks of errors.", panel="Connection")]
_FORMATS = {
    Format.JSON: "One JSON array (the default on a pipe).",
    Format.NL: "One JSON object per line.",
    Format.CSV: "CSV with a header line.",
    Format.TABLE: "A table (the default on a terminal).",
}


@dataclass(frozen=True, slots=True)
class Session:
    """One connection that runs calls, for commands that ask something and are done."""

    dsn: str
    connection: "psycopg.Connection[Any]"

    def run(self, call: "Call[T]") -> T:
        """Run one call in a transaction of its own."""
        from trunkline.core.execution import execute, translated

        with translated(self.connection):
            return execute(self.connection, call)


@dataclass(frozen=True, slots=True)
class Invocation:
    """Where the database is, and how to print."""

    dsn: str | None = None
    instance: str | None = None
    debug: bool = False
    form: Format | None = None

    @property
    def format(self) -> Format:
        """The format that was asked for, else what fits standard output."""
        return self.form or output.default_format()

    def print(
        self, rows: Iterable[Any], *, columns: Sequence[str] | None = None, nothing: str = ""
    ) -> None:
        """Print rows; a table shows only ``columns``, and ``nothing`` where there are none."""
        rows = list(rows)
        output.print_rows(rows, self.format, columns=columns)
        if nothing and not rows and self.format is Format.TABLE:
            output.say(nothing)

    def print_one(self, row: Any, *, columns: Sequence[str] | None = None) -> None:
        """Print one thing."""
        output.print_one(row, self.format, columns=columns)

    def settings(self) -> "Settings":
        """What the environment says, with the instance that was asked for."""
        from trunkline.core.settings import Settings

        return Settings.load(**({"instance": self.instance} if self.instance else {}))

    @contextmanager
    def target(self, listen: "Address | None" = None) -> "Iterator[Target]":
        """The database, as it is: the embedded server is started, nothing is installed."""
        from trunkline.core import embedded
        from trunkline.core.errors import BadRequest
        from trunkline.core.settings import find_dsn

        if self.dsn is not None and self.instance is not None:
            raise BadRequest("--dsn and --instance name two databases.", hint="Leave one out.")
        settings = self.settings()
        dsn = None if self.instance is not None else find_dsn(settings, self.dsn)
        if dsn is not None and listen is not None:
            raise BadRequest(
                "--listen is for the embedded server, and another database is named.",
                hint="Name the server as well: --instance default",
            )
        if dsn is not None:
            yield embedded.Target(dsn)
            return
        with _starting(settings):
            found = embedded.use(
                settings.home, settings.instance, bin_dir=settings.pg_bin, listen=listen
            )
        with found:
            yield found

    @contextmanager
    def session(self, *, install: bool = True) -> Iterator[Session]:
        """A connection; the embedded server gets the schema by itself."""
        from trunkline.core import migrate
        from trunkline.core.connections import on_our_terms

        with self.target() as target:
            if install and target.server is not None:
                migrate.install(target.dsn)
            with connected(target.dsn) as connection:
                if self.settings().prepare:
                    on_our_terms(connection)
                yield Session(target.dsn, connection)

    @asynccontextmanager
    async def platform(
        self,
        *,
        install: bool = False,
        name: str | None = None,
        listen: "Address | None" = None,
    ) -> "AsyncIterator[Platform]":
        """The clients; that the server answers is checked first, for quick and clear errors."""
        from trunkline.core import migrate, telemetry
        from trunkline.platform import Platform

        telemetry.configure("warning")
        with self.target(listen) as target:
            if install or target.server is not None:
                migrate.install(target.dsn)
            migrate.check(target.dsn)
            async with Platform(target, self.settings(), name=name) as platform:
                yield platform


@contextmanager
def connected(dsn: str) -> "Iterator[psycopg.Connection[Any]]":
    """A connection of our own, outside of any pool: it fails at once and says why."""
    import psycopg

    from trunkline.core.connections import connect_arguments
    from trunkline.core.execution import translated

    with translated():
        arguments = connect_arguments(dsn, prepare=False, connect_timeout=10)
        connection = psycopg.connect(dsn, **arguments)
    with connection:
        yield connection


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run asynchronous work to its end."""
    import asyncio

    return asyncio.run(work)


def command(
    app: typer.Typer,
    name: str | None = None,
    *,
    example: str,
    reads: bool = False,
    panel: str | None = None,
    needs: str | None = None,
    passes_options: bool = False,
) -> Callable[[Function], Function]:
    """Register a command with an example; with ``reads``, its output has a format.

    ``needs`` names the extra to install when a package cannot be imported. With ``passes_options``
    unknown options are arguments, for another program.
    """

    def register(function: Function) -> Function:
        add = app.command(
            name,
            cls=Command,
            epilog=f"Example: {example}",
            rich_help_panel=panel,
            context_settings={"ignore_unknown_options": passes_options},
        )
        add(_shared(function, reads=reads, needs=needs))
        return function

    return register


def _shared(function: Callable[..., Any], *, reads: bool, needs: str | None) -> Callable[..., Any]:
    _, *own = inspect.signature(function, eval_str=True).parameters.values()
    shared = [
        _parameter("context", typer.Context),
        _parameter("dsn", Dsn, None),
        _parameter("instance", Instance, None),
        _parameter("debug", Debug, default=False),
        *(_parameter(f"as_{form}", _format_option(form), default=False) for form in _FORMATS),
    ]
    if not reads:
        shared = shared[: -len(_FORMATS)]

    @wraps(function)
    def wrapper(context: typer.Context, **given: Any) -> None:
        from trunkline.core.extras import needed_for

        invocation = _invocation(context.obj or Invocation(), given)
        with needed_for(context.command_path, needs):
            function(invocation, **given)

    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in (*shared, *own)
    ]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> Any:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _format_option(form: Format) -> Any:
    return Annotated[bool, flag(f"--{form}", help=_FORMATS[form], panel="Output")]


def _invocation(before: Invocation, given: dict[str, Any]) -> Invocation:
    """What was said before the command's name, overruled by what was said after it."""
    from trunkline.core.errors import BadRequest

    forms = [form for form in _FORMATS if given.pop(f"as_{form}", False)]
    if len(forms) > 1:
        raise typer.BadParameter(f"choose one of {', '.join(f'--{form}' for form in forms)}.")
    dsn, instance = given.pop("dsn"), given.pop("instance")
    if dsn is None and instance is None:
        dsn, instance = before.dsn, before.instance
    for option, value in (("--dsn", dsn), ("--instance", instance)):
        if value is not None and not value.strip():
            raise BadRequest(
                f"{option} is empty.",
                hint="Is the variable set that it was taken from? Or leave the option out.",
            )
    debug = given.pop("debug") or before.debug
    return Invocation(dsn, instance, debug, forms[0] if forms else None)


@contextmanager
def _starting(settings: "Settings") -> Iterator[None]:
    """On a terminal, say that a server is being started: the first time it takes seconds."""
    from trunkline.core.embedded import Server

    if not sys.stderr.isatty() or Server(settings.home, settings.instance).running:
        yield
        return
    with output.console(talk=True).status(f'starting the embedded server "{settings.instance}"'):
        yield
