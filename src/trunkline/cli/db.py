"""``trunkline db``: the schema in the database, and its settings."""

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.asking import Yes, ask
from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command, connected, flag
from trunkline.cli.output import Format, say
from trunkline.core.words import counted
from trunkline.version import __version__

if TYPE_CHECKING:
    from trunkline.core.migrate import Plan

app = commands("The schema in the database, and its settings.")
config = commands("Settings of this installation.")
app.add_typer(config, name="config")

_NOTHING_TO_DO = "The schema is that of version {}: nothing to do."

Compat = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Compatibility schemas to install too, with commas between them:"
        " pgmb, tube, fancy_subscriptions, kv.",
    ),
]
Setting = Annotated[str, typer.Argument(metavar="NAME", help="A setting, such as lease.ttl.")]


@command(app, example="trunkline db install --dsn postgresql://me@host/app", reads=True)
def install(invocation: Invocation, compat: Compat = None) -> None:
    """Install the schema; does nothing if it is up to date."""
    from trunkline.core import migrate

    with invocation.target() as target:
        _print_applied(invocation, migrate.install(target.dsn, compat=_names(compat)))
        _tell_about_roles(target.dsn)


@command(app, example="trunkline db upgrade --dry-run --show-sql", reads=True)
def upgrade(
    invocation: Invocation,
    dry_run: Annotated[
        bool, flag("--dry-run", help="Change nothing; list what would be applied.")
    ] = False,
    show_sql: Annotated[
        bool, flag("--show-sql", help="Print the SQL instead of the list of files.")
    ] = False,
) -> None:
    """Bring an older schema to this version."""
    from trunkline.core import migrate
    from trunkline.core.errors import SchemaMismatch

    with invocation.target() as target:
        planned = migrate.plan(target.dsn)
        if planned.version is None:
            raise SchemaMismatch("there is no schema to upgrade.", hint="Run: trunkline db install")
        migrate.refuse_foreign(planned)
        if not dry_run:
            planned = migrate.install(target.dsn)
        if show_sql:
            sys.stdout.write(migrate.pending_script(planned))
        elif dry_run:
            _print_pending(invocation, planned)
        else:
            _print_applied(invocation, planned)


@command(app, example="trunkline db verify && echo fine", reads=True)
def verify(invocation: Invocation) -> None:
    """Compare the schema with this version: exit code 0 when they are the same, else 1."""
    from trunkline.core import migrate

    with invocation.target() as target:
        planned = migrate.plan(target.dsn)
    rows = _differences(planned)
    invocation.print(rows)
    if planned.current:
        say(f"The schema is that of version {planned.version}.")
        return
    if planned.version is None:
        say("The schema is not installed. Run: trunkline db install")
    elif planned.newer:
        say(f"The schema is newer ({planned.version}) than this package: upgrade the package.")
    elif planned.edited:
        say("Released migrations were edited since they were applied: install the package again.")
    else:
        say("The schema differs. Run: trunkline db upgrade")
    raise typer.Exit(1)


@command(app, "sql", example="trunkline db sql | psql mydatabase")
def print_sql(_invocation: Invocation, compat: Compat = None) -> None:
    """Print the whole install as one script for psql."""
    from trunkline.core import migrate

    sys.stdout.write(migrate.script(compat=_names(compat)))


@command(
    app, example="trunkline db psql -c 'select * from trunkline.log_list()'", passes_options=True
)
def psql(
    invocation: Invocation,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENT]...", help="Passed on to psql.")
    ] = None,
) -> None:
    """Open psql on the database; the embedded server runs as long as it is open."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    from trunkline.core import migrate
    from trunkline.core.binaries import find_psql

    program = find_psql(invocation.settings().pg_bin)
    with invocation.target() as target:
        if target.server is not None:
            migrate.install(target.dsn)
        place = conninfo_to_dict(target.dsn)
        password = place.pop("password", None)  # the list of processes would show it
        with subprocess.Popen(
            [program, make_conninfo("", **place), *(arguments or ())],
            env={**os.environ, **({"PGPASSWORD": str(password)} if password else {})},
        ) as process:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # control-C is for psql
            code = process.wait()
    raise typer.Exit(code)


@command(app, example="trunkline db uninstall --yes")
def uninstall(invocation: Invocation, yes: Yes = False) -> None:
    """Drop the schema with everything in it; roles stay."""
    from trunkline.core import migrate
    from trunkline.core.telemetry import redact

    with invocation.target() as target:
        ask(f"Drop the schema trunkline with all its data from {redact(target.dsn)}?", yes=yes)
        tables = migrate.uninstall(target.dsn)
    say(f"The schema is gone, with {tables} tables.")


@command(app, example="trunkline db restored --yes")
def restored(invocation: Invocation, yes: Yes = False) -> None:
    """Refuse positions and tokens from after an older copy of the server's files was put back."""
    from trunkline.core.telemetry import redact

    with invocation.target() as target:
        ask(f"Begin another incarnation of the server of {redact(target.dsn)}?", yes=yes)
    with invocation.session() as session:
        number = session.run(_setting("incarnation_begin"))
    say(f"Incarnation {number} has begun.")


@command(config, "get", example="trunkline db config get lease.ttl", reads=True)
def config_get(
    invocation: Invocation,
    name: Setting,
    raw: Annotated[bool, flag("--raw", help="Print the value alone.")] = False,
) -> None:
    """Print one setting."""
    from trunkline.core.errors import BadRequest

    if raw and invocation.form is not None:
        raise BadRequest(f"--raw and --{invocation.form} say two things.", hint="Leave one out.")
    with invocation.session() as session:
        value = session.run(_setting("config_get", name=name))
    if raw:
        sys.stdout.write(f"{value}\n")
    else:
        invocation.print_one({"name": name, "value": value})


@command(config, "set", example='trunkline db config set lease.ttl "20 seconds"', reads=True)
def config_set(
    invocation: Invocation,
    name: Setting,
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The new value; without it, the default.")
    ] = None,
) -> None:
    """Change a setting; it takes effect at its next use."""
    with invocation.session() as session:
        stored = session.run(_setting("config_set", name=name, value=value))
    invocation.print_one({"name": name, "value": stored})


@command(config, "list", example="trunkline db config list --json", reads=True)
def config_list(invocation: Invocation) -> None:
    """List all settings with their defaults."""
    from trunkline.core.calls import Call

    with invocation.session() as session:
        rows = session.run(Call("config_list", {}, lambda rows: rows))
    invocation.print(rows, columns=("name", "value", "default_value", "description"))


def _print_applied(invocation: Invocation, planned: "Plan") -> None:
    """Print one object, or one sentence on a terminal."""
    applied = len(_differences(planned))
    if invocation.format is not Format.TABLE:
        invocation.print_one({"version": __version__, "applied": applied})
    if applied:
        say(f"{counted(applied, 'file')} applied. The schema is that of version {__version__}.")
    else:
        say(_NOTHING_TO_DO.format(planned.version))


def _print_pending(invocation: Invocation, planned: "Plan") -> None:
    """Print every file that an upgrade would apply."""
    rows = _differences(planned)
    invocation.print(rows)
    if rows:
        say(f"{counted(len(rows), 'file')} would be applied.")
    else:
        say(_NOTHING_TO_DO.format(planned.version))


def _differences(planned: "Plan") -> list[dict[str, Any]]:
    return [
        *(
            {"capability": step.capability, "file": step.file, "state": "pending"}
            for step in planned.pending
        ),
        *(
            {"capability": None, "file": file, "state": state}
            for state in ("missing", "edited", "unknown")
            for file in getattr(planned, state)
        ),
    ]


def _tell_about_roles(dsn: str) -> None:
    """Whoever may not make roles still has a working schema; say what a DBA can add."""
    from trunkline.core import doctor

    with connected(dsn) as connection:
        for finding in doctor.check_roles(connection):
            if finding.state is not doctor.State.OK:
                say(f"Roles {finding.found}. {finding.remedy}")


def _names(lists: list[str] | None) -> list[str]:
    """The names in options that may hold several, with commas between them."""
    return [name.strip() for given in lists or [] for name in given.split(",")]


def _setting(function: str, **arguments: str | None) -> Any:
    from trunkline.core.calls import Call, scalar

    return Call(function, arguments, scalar)
