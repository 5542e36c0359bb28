"""What is wrong with an installation, and what to do about it.

Each check answers with findings; a check that cannot be made (a right is missing, somebody holds a
lock) is a finding too and stops no other. Nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from trunkline.core import migrate
from trunkline.core.calls import Call
from trunkline.core.connections import connect_arguments, on_our_terms
from trunkline.core.errors import DatabaseError, Forbidden, SchemaMismatch, TrunklineError
from trunkline.core.execution import execute, translated
from trunkline.core.settings import Settings
from trunkline.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Connection = psycopg.Connection[Any]
    Check = Callable[[Connection], Iterator["Finding"]]

ROLES = ("trunkline_reader", "trunkline_writer", "trunkline_admin")

_DURABLE = ("fsync", "full_page_writes", "synchronous_commit")
_MAINTENANCE_LATE = timedelta(minutes=5)  # it notes its runs once a minute
_LEASE_LATE = timedelta(minutes=20)  # maintenance forgets a dead process after ten
_IMPATIENT = timedelta(seconds=5)  # whoever lets others wait for so long is worth a word
_UNCONFIRMED = (
    "select count(*), min(query_start), current_setting('synchronous_standby_names')"
    " from pg_stat_activity where wait_event = 'SyncRep' and query_start < now() - %s"
)
_PATIENCE = "5s"  # for one check, where the server is in trouble


class State(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found; ``remedy`` says what to do where there is something to do."""

    check: str
    state: State
    found: str
    remedy: str = ""


def examine(
    dsn: str,
    *,
    older_than: timedelta = timedelta(minutes=1),
    further: Mapping[str, Check] | None = None,
) -> list[Finding]:
    """Check what the core knows of, then what capabilities add."""
    try:
        with translated():
            connection = psycopg.connect(
                dsn, **connect_arguments(dsn, prepare=False, connect_timeout=10)
            )
            if Settings.load().prepare:
                on_our_terms(connection)
    except TrunklineError as error:
        return [Finding("connection", State.FAIL, error.message, error.hint)]
    server: dict[str, Check] = {
        "connection": check_connection,
        "isolation": check_isolation,
        "durability": check_durability,
        "schema": partial(check_schema, dsn=dsn),
    }
    schema: dict[str, Check] = {
        "roles": check_roles,
        "maintenance": check_maintenance,
        "leases": check_leases,
        "sessions": partial(check_sessions, older_than=older_than),
        "rotation": check_rings,
        "objects": check_objects,
        **(further or {}),
    }
    with connection:
        connection.execute("select set_config('statement_timeout', %s, false)", [_PATIENCE])
        findings = [found for name in server for found in _run(name, server[name], connection)]
        if _installed(connection):
            findings += [found for name in schema for found in _run(name, schema[name], connection)]
    return findings


def check_connection(connection: Connection) -> Iterator[Finding]:
    """Is there a server, and is it new enough?"""
    info = connection.info
    version = info.parameter_status("server_version") or str(info.server_version)
    where = f"{info.user}@{info.host or 'local'}:{info.port}/{info.dbname}"
    if info.server_version < migrate.OLDEST_SERVER:
        remedy = "Trunkline needs 15 or newer."
        yield Finding("connection", State.FAIL, f"Postgres {version}, {where}", remedy)
    else:
        yield Finding("connection", State.OK, f"Postgres {version}, {where}")
    row = connection.execute("select current_setting('transaction_read_only') = 'on'").fetchone()
    if row and row[0]:
        remedy = "Name the primary, or see default_transaction_read_only."
        yield Finding("connection", State.FAIL, "it takes only reads", remedy)
    row = connection.execute("select getdatabaseencoding() = 'SQL_ASCII'").fetchone()
    if row and row[0]:
        yield Finding(
            "connection",
            State.WARN,
            "the encoding of the database is SQL_ASCII: text that is not UTF-8 is taken, and then"
            " delays every reader; many names with letters beyond ASCII are refused",
            "Use a database with the encoding UTF8.",
        )


def check_isolation(connection: Connection) -> Iterator[Finding]:
    """Do transactions see what was committed before each of their statements, as calls need it?"""
    row = connection.execute(
        "select reset_val from pg_settings where name = 'default_transaction_isolation'"
    ).fetchone()
    (level,) = row or ("",)
    if level in {"repeatable read", "serializable"}:
        yield Finding(
            "isolation",
            State.WARN,
            f"transactions are {level} by default, in which many calls are refused (TL400)",
            "Clients of ours change that for their sessions, but not behind a transaction pooler,"
            f" and psql does not: alter role {sql.Identifier(connection.info.user).as_string()}"
            " set default_transaction_isolation = 'read committed'",
        )
    else:
        yield Finding("isolation", State.OK, f"{level} by default")


def check_durability(connection: Connection) -> Iterator[Finding]:
    """Does the server keep what it acknowledged?"""
    # what others get: sessions of ours raise it for themselves
    rows = connection.execute(
        "select name from pg_settings where name = any (%s) and reset_val = 'off'", [list(_DURABLE)]
    )
    off = sorted((name for (name,) in rows), key=_DURABLE.index)
    for name in off:
        yield Finding(
            "durability",
            State.WARN,
            f"{name} is off: a crash can lose what was acknowledged",
            f"alter system set {name} = on, then select pg_reload_conf()",
        )
    if not off:
        yield Finding("durability", State.OK, f"{', '.join(_DURABLE)} are on")


def check_schema(_connection: Connection, *, dsn: str) -> Iterator[Finding]:
    """Is the schema the one that this code expects?"""
    planned = migrate.plan(dsn)
    if planned.current:
        yield Finding("schema", State.OK, f"version {planned.version}")
    elif planned.version is None:
        yield Finding("schema", State.FAIL, "not installed", "trunkline db install")
    elif planned.newer:
        remedy = "Install the newer trunkline package."
        yield Finding("schema", State.FAIL, f"{planned.version} is newer than this code", remedy)
    else:
        counts = {
            "pending": len(planned.pending),
            "missing": len(planned.missing),
            "edited": len(planned.edited),
        }
        differing = ", ".join(
            f"{counted(count, 'file')} {state}" for state, count in counts.items() if count
        )
        found = f"version {planned.version}: {differing}"
        remedy = "Install the package again." if planned.edited else "trunkline db upgrade"
        yield Finding("schema", State.FAIL, found, remedy)


def check_roles(connection: Connection) -> Iterator[Finding]:
    """Are the roles there that rights are granted to?"""
    row = connection.execute("select to_regrole(%s), to_regrole(%s), to_regrole(%s)", ROLES)
    there = row.fetchone() or ()
    missing = [role for role, found in zip(ROLES, there, strict=True) if found is None]
    if missing:
        yield Finding(
            "roles",
            State.WARN,
            f"missing: {', '.join(missing)}",
            f"As a DBA: {' '.join(f'create role {role} nologin;' for role in missing)}"
            " then, as the owner of the schema: select trunkline.roles_grant();",
        )
    else:
        yield Finding("roles", State.OK, ", ".join(ROLES))


def check_maintenance(connection: Connection) -> Iterator[Finding]:
    """Does somebody call ``maintain()``, and does it succeed?"""
    duties = _rows(connection, "duty_list")
    failing = [duty for duty in duties if duty["error"]]
    for duty in failing:
        found = f"{duty['duty']} failed {_ago(duty['failed_at'])}: {duty['error']}"
        remedy = "Mend the cause; it is tried again at the next run."
        yield Finding("maintenance", State.FAIL, found, remedy)
    runs = [duty["ran_at"] for duty in duties if duty["ran_at"]]
    remedy = "Keep `trunkline up` running, or have pg_cron `call trunkline.maintain()` each minute."
    if not runs:
        yield Finding("maintenance", State.WARN, "it never ran", remedy)
    elif _age(max(runs)) > _MAINTENANCE_LATE:
        yield Finding("maintenance", State.WARN, f"it last ran {_ago(max(runs))}", remedy)
    elif not failing:
        yield Finding("maintenance", State.OK, f"it last ran {_ago(max(runs))}")


def check_leases(connection: Connection) -> Iterator[Finding]:
    """Do dead processes still own something?"""
    leases = _rows(connection, "lease_list")
    stuck = [lease for lease in leases if not lease["living"] and _stuck(lease)]
    for lease in stuck:
        yield Finding(
            "leases",
            State.WARN,
            f"{lease['name'] or lease['process']} died {_ago(lease['expires'])}"
            f" and still owns {lease['owns']}",
            "No process took over: start another consumer of its group, or"
            f" select trunkline.lease_end('{lease['process']}')",
        )
    if not stuck:
        living = sum(lease["living"] for lease in leases)
        yield Finding("leases", State.OK, f"{living} living process{'' if living == 1 else 'es'}")


def check_sessions(connection: Connection, *, older_than: timedelta) -> Iterator[Finding]:
    """Who holds others, or the vacuum horizon, back? Does a standby hold everybody back?"""
    found = False
    row = connection.execute(_UNCONFIRMED, [_IMPATIENT]).fetchone()
    if row and row[0]:
        found = True
        number, oldest, names = row
        yield Finding(
            "sessions",
            State.FAIL,
            f"{counted(number, 'commit')} wait{'s' if number == 1 else ''} for a synchronous"
            f" standby, the first since {_ago(oldest)}",
            f"See to the standby, or to synchronous_standby_names, which is '{names}'.",
        )
    for session in execute(connection, _call("doctor_blockers", older_than=older_than)):
        if session["age"] > min(older_than, _IMPATIENT):
            found = True
            yield _blocker(session)
    if not found:
        yield Finding("sessions", State.OK, "no session holds anything back")


def check_rings(connection: Connection) -> Iterator[Finding]:
    """Do hot tables get rid of what is done?"""
    rings = _rows(connection, "ring_list")
    held = [ring for ring in rings if ring["held_since"]]
    for ring in held:
        needed = "needed" in (ring["held_by"] or "")
        full = ring["used"] >= ring["slots"] - 1 and not needed
        yield Finding(
            "rotation",
            State.FAIL if full else State.WARN,
            f"ring {ring['ring']} ({ring['used']} of {ring['slots']} slots in use) is held back"
            f" since {_ago(ring['held_since'])} by {ring['held_by'] or 'a process that has left'}",
            "Disk grows until the groups, tubes and zones that are behind have caught up."
            if needed
            else "End that session; disk grows until then.",
        )
    if not held:
        rest = ", ".join(f"{ring['ring']} {ring['used']}/{ring['slots']}" for ring in rings)
        yield Finding("rotation", State.OK, f"slots in use: {rest}" if rest else "no rings")


def check_objects(connection: Connection) -> Iterator[Finding]:
    """Does every object have an owner?"""
    orphans = [row["object"] for row in _rows(connection, "doctor_objects")]
    if orphans:
        more = f" and {len(orphans) - 3} more" if len(orphans) > 3 else ""
        yield Finding(
            "objects",
            State.WARN,
            f"{counted(len(orphans), 'object')} without an owner: {', '.join(orphans[:3])}{more}",
            f"Name one: select trunkline.object_transfer('{orphans[0]}', 'role')",
        )
    (readers_see_all,) = connection.execute(
        "select trunkline.config_get('broker.watch_open')::boolean"
        " and exists (select from trunkline.broker_watched())"
    ).fetchone() or (False,)
    if readers_see_all:
        yield Finding(
            "objects",
            State.WARN,
            "every reader sees the events of watched tables",
            "Grant SELECT on the tables to roles that read their events, then:"
            " trunkline db config set broker.watch_open false",
        )
    if not orphans and not readers_see_all:
        yield Finding("objects", State.OK, "every object has an owner")


def duration_text(value: timedelta) -> str:
    """An age in its largest unit."""
    seconds = max(value.total_seconds(), 0)
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _run(name: str, check: Check, connection: Connection) -> list[Finding]:
    try:
        with translated():
            return list(check(connection))
    except Forbidden as error:
        remedy = "Ask as the owner of the schema, or with trunkline_admin."
        return [Finding(name, State.WARN, f"cannot be told: {error.message}", remedy)]
    except SchemaMismatch as error:
        return [Finding(name, State.FAIL, error.message, error.hint)]
    except DatabaseError as error:
        waited = error.sqlstate == psycopg.errors.QueryCanceled.sqlstate
        remedy = "A session may hold a lock: see sessions." if waited else error.hint
        return [Finding(name, State.FAIL, f"cannot be told: {error.message}", remedy)]


def _installed(connection: Connection) -> bool:
    row = connection.execute("select to_regclass('trunkline.migration') is not null").fetchone()
    return bool(row and row[0])


def _blocker(session: Mapping[str, Any]) -> Finding:
    waiting = session["blocks"]
    who = f"pid {session['pid']}" if session["pid"] else session["kind"]
    parts = [f"{who} ({session['name']}): {session['kind']} for {duration_text(session['age'])}"]
    if waiting:
        parts.append(f"pid {', '.join(map(str, waiting))} waiting for it")
    if session["query"]:
        parts.append(" ".join(session["query"].split()))
    remedy = (
        f"select pg_terminate_backend({session['pid']})"
        if session["pid"]
        else f"rollback prepared '{session['name']}' (or commit prepared)"
    )
    return Finding("sessions", State.FAIL if waiting else State.WARN, "; ".join(parts), remedy)


def _stuck(lease: Mapping[str, Any]) -> bool:
    return lease["owns"] > 0 or _age(lease["expires"]) > _LEASE_LATE


def _rows(connection: Connection, function: str) -> list[dict[str, Any]]:
    return execute(connection, _call(function))


def _call(function: str, **arguments: Any) -> Call[list[dict[str, Any]]]:
    return Call(function, arguments, lambda rows: rows)


def _age(moment: datetime) -> timedelta:
    return datetime.now(UTC) - moment


def _ago(moment: datetime) -> str:
    return f"{duration_text(_age(moment))} ago"
