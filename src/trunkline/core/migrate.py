"""Plan and apply the schema: numbered files once, function files whenever their text changes.

Each capability keeps ``sql/NNN_name.sql`` (tables, applied once, immutable when released),
``sql/functions/<name>.sql`` (one function each, applied anew on a changed checksum) and
``sql/NNN_post_name.sql`` (applied once, after the functions). Everything happens in one
transaction under an advisory lock, so any number of installs may start at once.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from trunkline.core import compat as compatibility
from trunkline.core.connections import connect_arguments
from trunkline.core.errors import Conflict, Forbidden, SchemaMismatch
from trunkline.core.execution import translated
from trunkline.version import SCHEMA, __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from importlib.resources.abc import Traversable

CAPABILITIES = ("core", "log", "broker", "live", "tube", "kv", "spark")
OLDEST_SERVER = 150000
_LOCK = 0x7472756E6B  # "trunk"
_UNINSTALLERS = (
    "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
    " where n.nspname = 'trunkline' and p.proname ~ '^_uninstall_'"
)
_WHAT_IS_THERE = (
    "select to_regclass('trunkline.migration') is not null,"
    " to_regprocedure('trunkline.compatibility()') is not null"
)
_COMPATIBILITY = "select schema, oldest_client from trunkline.compatibility()"
_OF_SOMEBODY_ELSE = (
    "select to_regclass('trunkline.migration') is null and exists ("
    "select from pg_class c where c.relnamespace = to_regnamespace('trunkline')"
    " union all select from pg_proc p where p.pronamespace = to_regnamespace('trunkline'))"
)


@dataclass(frozen=True, slots=True)
class Step:
    """One file of the schema."""

    capability: str
    file: str
    text: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def repeatable(self) -> bool:
        return self.file.startswith("functions/")


@dataclass(frozen=True, slots=True)
class Plan:
    """What an upgrade would do, and what keeps it from being done."""

    pending: tuple[Step, ...]
    edited: tuple[str, ...]
    unknown: tuple[str, ...]
    missing: tuple[str, ...]
    version: str | None

    @property
    def newer(self) -> bool:
        """Whether a newer release than this code has been here."""
        return bool(self.unknown) or _version_key(self.version or "") > _version_key(__version__)

    @property
    def current(self) -> bool:
        return not (self.pending or self.edited or self.unknown or self.missing)


def steps() -> list[Step]:
    """Every file of the schema, in the order of a fresh install."""
    found: list[Step] = []
    for capability in CAPABILITIES:
        folder = files(f"trunkline.{capability}") / "sql"
        numbered = [file for file in _sql_files(folder) if file.name[:3].isdigit()]
        before = [file for file in numbered if "_post_" not in file.name]
        after = [file for file in numbered if "_post_" in file.name]
        found += [Step(capability, file.name, file.read_text("utf-8")) for file in before]
        found += [
            Step(capability, f"functions/{file.name}", file.read_text("utf-8"))
            for file in _sql_files(folder / "functions")
        ]
        found += [Step(capability, file.name, file.read_text("utf-8")) for file in after]
    return found


def compat_steps(names: Iterable[str]) -> list[Step]:
    """The files of compatibility schemas, which come last."""
    return [Step("compat", f"functions/{name}.sql", compatibility.text(name)) for name in names]


def plan(dsn: str) -> Plan:
    """Compare the database with the code; changes nothing."""
    with _session(dsn) as connection:
        return _plan(connection)


def check(dsn: str, *, hint: str = "Run: trunkline db install") -> None:
    """Check that the server answers and that its schema and this package fit each other."""
    with _connected(dsn) as connection:
        name = connection.info.dbname
        row = connection.execute(_WHAT_IS_THERE).fetchone() or (False, False)
        if not row[0]:
            raise SchemaMismatch(f'the database "{name}" has no schema trunkline.', hint=hint)
        numbers = (0, 0)  # a schema from before there was a number
        if row[1]:
            numbers = connection.execute(_COMPATIBILITY).fetchone() or numbers
        _refuse_mismatch(name, *numbers, hint=hint)


def _refuse_mismatch(database: str, schema: int, oldest_client: int, *, hint: str) -> None:
    if schema < SCHEMA:
        raise SchemaMismatch(
            f'the schema of the database "{database}" is too old: it has number {schema},'
            f" this package needs {SCHEMA}.",
            hint=hint,
            details={"schema": schema, "needed": SCHEMA},
        )
    if oldest_client > SCHEMA:
        raise SchemaMismatch(
            f'the schema of the database "{database}" is too new: it serves packages from number'
            f" {oldest_client} on, this one has {SCHEMA}.",
            hint="Install the newer trunkline package.",
            details={"schema": schema, "oldest_client": oldest_client, "package": SCHEMA},
        )


def install(dsn: str, *, compat: Iterable[str] = ()) -> Plan:
    """Bring the database to the code's schema; returns what was applied.

    Compatibility schemas that are there are kept current; those in ``compat`` are added.
    """
    asked = compatibility.check(compat)
    with _session(dsn) as connection, connection.transaction():
        connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])
        _refuse_other_schema(connection)
        planned = _plan(connection, asked)
        refuse_foreign(planned)
        if planned.pending or planned.missing:
            _become_owner(connection)
            _apply(connection, _due(planned))
    return planned


def refuse_foreign(planned: Plan) -> None:
    """Refuse to touch what another release, or another hand, made of the schema."""
    if planned.newer:
        known = f": it knows {', '.join(planned.unknown)}" if planned.unknown else ""
        raise SchemaMismatch(
            f"the database has a newer schema ({planned.version}) than this code"
            f" ({__version__}){known}.",
            hint="Install the newer trunkline package.",
        )
    if planned.edited:
        raise SchemaMismatch(
            f"released migrations were edited: {', '.join(planned.edited)}.",
            hint="A change of tables goes into a new numbered file.",
        )


def script(*, compat: Iterable[str] = ()) -> str:
    """The whole install as one script for psql."""
    return _script([*steps(), *compat_steps(compatibility.check(compat))])


def pending_script(planned: Plan) -> str:
    """What an upgrade would run, as a script for psql; empty when there is nothing to do."""
    due = _due(planned)
    return _script(due) if due else ""


def uninstall(dsn: str) -> int:
    """Drop the schema and everything in it; returns how many tables went. Roles stay.

    What a capability left in tables of users is taken back first, bit by bit: functions
    ``_uninstall_<capability>()`` are called until they answer that nothing is left.
    """
    with _session(dsn) as connection:
        _refuse_other_schema(connection)
        compatibility.drop(connection)
        for (name,) in connection.execute(_UNINSTALLERS).fetchall():
            statement = sql.SQL("select trunkline.{}()").format(sql.Identifier(name))
            while (row := connection.execute(statement).fetchone()) and row[0]:
                pass
        gone = 0
        while batch := _droppable(connection):
            # in batches: one DROP of thousands of tables would exhaust the server's lock table
            connection.execute(
                sql.SQL("drop table {} cascade").format(
                    sql.SQL(", ").join(sql.Identifier("trunkline", name) for name in batch)
                )
            )
            gone += len(batch)
        connection.execute("drop schema if exists trunkline cascade")
        return gone


def _refuse_other_schema(connection: psycopg.Connection[Any]) -> None:
    """A schema of our name that is empty may be filled; what somebody else put there stays."""
    row = connection.execute(_OF_SOMEBODY_ELSE).fetchone()
    if row and row[0]:
        raise Conflict(
            "the schema trunkline of this database holds something else.",
            hint="Rename it, or use another database.",
        )


def _plan(connection: psycopg.Connection[Any], asked: Sequence[str] = ()) -> Plan:
    compat = compatibility.schemas(connection, asked)
    wanted = {
        (step.capability, step.file): step for step in [*steps(), *compat_steps(compat.wanted)]
    }
    row = connection.execute("select to_regclass('trunkline.migration') is not null").fetchone()
    if not (row and row[0]):
        return Plan(tuple(wanted.values()), (), (), (), None)
    rows = connection.execute(
        "select capability, file, checksum, version from trunkline.migration order by applied_at"
    ).fetchall()
    applied = {(capability, file): checksum for capability, file, checksum, _ in rows}
    for step in compat_steps(set(compat.wanted) - compat.present):
        applied.pop((step.capability, step.file), None)  # it was dropped by hand since
    routines = set(compat.present) | {
        name
        for (name,) in connection.execute(
            "select proname from pg_proc where pronamespace = 'trunkline'::regnamespace"
        )
    }
    pending = tuple(
        step
        for key, step in wanted.items()
        if key not in applied or (step.repeatable and applied[key] != step.checksum)
    )
    numbered = {key: step for key, step in wanted.items() if not step.repeatable}
    return Plan(
        pending=pending,
        edited=tuple(
            f"{key[0]}/{key[1]}"
            for key, step in numbered.items()
            if key in applied and applied[key] != step.checksum
        ),
        unknown=tuple(
            f"{capability}/{file}"
            for capability, file in applied
            if (capability, file) not in wanted and not file.startswith("functions/")
        ),
        missing=tuple(
            step.file
            for key, step in wanted.items()
            if step.repeatable and key in applied and _routine(step) not in routines
        ),
        version=max((version for *_, version in rows), default=None, key=_version_key),
    )


def _due(planned: Plan) -> Sequence[Step]:
    """What to run; where a function is gone all of them are made anew, for what went with it."""
    if not planned.missing:
        return planned.pending
    added = [step for step in planned.pending if step.capability == "compat"]
    return [step for step in steps() if step.repeatable or step in planned.pending] + added


def _become_owner(connection: psycopg.Connection[Any]) -> None:
    """What is added belongs to whom all the rest belongs to: functions call each other."""
    row = connection.execute(
        "select pg_get_userbyid(relowner), relowner = current_user::regrole"
        " from pg_class where oid = to_regclass('trunkline.migration')"
    ).fetchone()
    if row is not None and not row[1]:
        connection.execute(sql.SQL("set local role {}").format(sql.Identifier(row[0])))


def _apply(connection: psycopg.Connection[Any], due: Sequence[Step]) -> None:
    connection.execute("set local check_function_bodies = off")
    connection.execute("set local search_path = pg_catalog, pg_temp")
    connection.execute("set local client_min_messages = warning")
    connection.execute(_prelude().encode())
    for step in due:
        connection.execute(f"{step.text}\n{_record_text(step)}".encode())
    connection.execute("set local client_min_messages = notice")
    connection.execute("select trunkline.roles_grant()")


def _script(due: Sequence[Step]) -> str:
    parts = ["begin;", "set local check_function_bodies = off;"]
    parts += ["set local search_path = pg_catalog, pg_temp;", _prelude()]
    for step in due:
        parts += [f"-- {step.capability}: {step.file}", step.text.strip(), _record_text(step)]
    parts += ["select * from trunkline.roles_grant();", "commit;"]
    return "\n\n".join(parts) + "\n"


def _record_text(step: Step) -> str:
    values = ", ".join(
        f"'{value}'" for value in (step.capability, step.file, step.checksum, __version__)
    )
    return (
        f"insert into trunkline.migration (capability, file, checksum, version) values ({values})"
        " on conflict on constraint migration_pkey do update"
        " set checksum = excluded.checksum, version = excluded.version,"
        " applied_at = clock_timestamp();"
    )


def _prelude() -> str:
    return (files("trunkline.core") / "sql" / "bootstrap.sql").read_text("utf-8").strip()


def _sql_files(folder: Traversable) -> Iterator[Traversable]:
    if folder.is_dir():
        yield from sorted(
            (file for file in folder.iterdir() if file.name.endswith(".sql")),
            key=lambda file: file.name,
        )


def _routine(step: Step) -> str:
    return step.file.removeprefix("functions/").removesuffix(".sql")


def _droppable(connection: psycopg.Connection[Any]) -> list[str]:
    """Tables to drop; the one that tells whose schema it is goes last, with the schema."""
    return [
        name
        for (name,) in connection.execute(
            "select c.relname from pg_class c where c.relnamespace = to_regnamespace('trunkline')"
            " and c.relkind in ('r', 'p') and not c.relispartition"
            " and c.relname <> 'migration' limit 50"
        )
    ]


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


@contextmanager
def _session(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with _for_owners(), _connected(dsn) as connection:
        yield connection


@contextmanager
def _connected(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with translated():
        arguments = connect_arguments(dsn, prepare=False, connect_timeout=10)
        with psycopg.connect(dsn, **arguments) as connection:
            if connection.info.server_version < OLDEST_SERVER:
                raise SchemaMismatch(
                    f"the server is Postgres {connection.info.server_version // 10000};"
                    " Trunkline needs 15 or newer."
                )
            connection.add_notice_handler(_say)
            # who waited for another install has to see what that one did
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            with translated(connection):
                yield connection


@contextmanager
def _for_owners() -> Iterator[None]:
    """The roles that are granted do not help here: say who may."""
    try:
        yield
    except Forbidden as error:
        who = "The owner of the schema may; at first, who may create one in the database."
        role = error.details.get("role")
        error.hint = f'You are connected as "{role}". {who}' if role else who
        raise


def _say(notice: psycopg.errors.Diagnostic) -> None:
    from trunkline.core.telemetry import get_logger

    get_logger("trunkline.migrate").info(notice.message_primary or "")
