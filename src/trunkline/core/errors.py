"""One error tree for every face.

::

    TrunklineError
     +-- BadRequest        TL400  the call makes no sense as it was made
     +-- Forbidden         TL403  the role lacks a right
     +-- NotFound          TL404  no such topic, group, table, ...
     +-- Conflict          TL409  it is there already, differently; or a sequence ran backwards
     +-- PositionTrimmed   TL410  the position left with retention, or belongs to another history
     +-- TooLarge          TL413  a message or batch is over the limit
     +-- UnsupportedCodec  TL415  SQL cannot decode this batch, a client can
     +-- Invalid           TL422  a value is out of its range
     +-- LeaseLost         TL423  somebody else owns it now
     +-- SchemaMismatch    TL426  database and code are of different versions
     +-- TooMany           TL429  too much in flight
     +-- Unavailable       TL503  the server cannot be reached, or left while we spoke to it
     +-- DatabaseError     any other SQLSTATE, with the driver's error as its cause

SQL raises these as SQLSTATE class ``TL`` with a JSON object as DETAIL; `from_database` turns the
driver's exception into the class above and keeps the object as `details`.
"""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

import psycopg


class TrunklineError(Exception):
    """Base of everything that Trunkline raises on purpose."""

    code: ClassVar[str] = "TL500"

    def __init__(self, message: str, *, hint: str = "", details: dict[str, Any] | None = None):
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details or {}

    def __str__(self) -> str:
        said = self.message.strip()
        if said and self.hint and said[-1] not in ".:!?":  # words of Postgres end without a stop
            said += "."
        return f"{said} {self.hint}".strip()


class BadRequest(TrunklineError):
    """The call makes no sense as it was made."""

    code = "TL400"


class Forbidden(TrunklineError):
    """The role lacks a right."""

    code = "TL403"


class NotFound(TrunklineError):
    """There is no such thing."""

    code = "TL404"


class Conflict(TrunklineError):
    """It is there already with other settings, or a sequence ran backwards."""

    code = "TL409"


class PositionTrimmed(TrunklineError):
    """The position left with retention, lies in the future, or belongs to another history."""

    code = "TL410"


class TooLarge(TrunklineError):
    """A message or a batch is over the limit."""

    code = "TL413"


class UnsupportedCodec(TrunklineError):
    """SQL cannot decode this batch; a client can."""

    code = "TL415"


class Invalid(TrunklineError):
    """A value is out of its range."""

    code = "TL422"


class LeaseLost(TrunklineError):
    """Somebody else owns it now: what was being done must not be acknowledged."""

    code = "TL423"


class SchemaMismatch(TrunklineError):
    """Database and code are of different versions."""

    code = "TL426"


class TooMany(TrunklineError):
    """Too much is in flight."""

    code = "TL429"


class Unavailable(TrunklineError):
    """The server cannot be reached, or left while we spoke to it."""

    code = "TL503"


class DatabaseError(TrunklineError):
    """Any other refusal of the database; the driver's error is the cause."""

    def __init__(self, message: str, *, sqlstate: str | None = None, hint: str = ""):
        super().__init__(message, hint=hint)
        self.sqlstate = sqlstate


_BY_STATE: dict[str, type[TrunklineError]] = {
    error.code: error
    for error in (
        BadRequest,
        Forbidden,
        NotFound,
        Conflict,
        PositionTrimmed,
        TooLarge,
        UnsupportedCodec,
        Invalid,
        LeaseLost,
        SchemaMismatch,
        TooMany,
        Unavailable,
    )
}
# Said by a server that closes the connection: shutdown, crash, starting up, and its own timeouts.
_HUNG_UP = {"57P01", "57P02", "57P03", "57P05", "25P03", "25P04"}
# Of these: a transaction took longer than the server has patience for.
_OUTLASTED = {"25P03", "25P04"}
# A serialisation failure and a deadlock: nothing of the transaction was done.
_CLASHES = {"40001", "40P01"}
# Told of a value on its way to a function of ours: a number beyond bigint, a text that is no time,
# \u0000 in JSON.
_BAD_VALUE = {"22003", "22007", "22008", "22P05"}
_MISSING_SCHEMA = {"3F000", "42883", "42P01"}
_POOLED = (
    "Behind a pooler in transaction mode nothing can be prepared: set TRUNKLINE_PREPARE=false."
)
_PATIENCE = "Set {0} higher for the role, or for the session: PGOPTIONS='-c {0}=0'."
_AGAIN = (
    "Run the whole transaction again. Transactions that take partitions, keys and rows in the same"
    " order do not wait for each other."
)
ONLY_READS = "25006"
UNKNOWN_STATEMENT = "26000"
# Where Postgres refuses a row for a policy: no other field of such an error tells that apart.
_POLICY_CHECK = "ExecWithCheckOptions"
# Where Postgres finds that a cached plan would have other columns: its SQLSTATE says much else too.
_PLAN_CHECK = "RevalidateCachedQuery"
_OF_A_RELATION = re.compile(r"for (table|view|materialized view|foreign table|sequence|column) ")
_HINTS = {
    ONLY_READS: "The database takes only reads: a standby, or default_transaction_read_only is on.",
    "25P03": _PATIENCE.format("idle_in_transaction_session_timeout"),
    "25P04": _PATIENCE.format("transaction_timeout"),
    UNKNOWN_STATEMENT: _POOLED,
    "42P05": _POOLED,
    "57P05": _PATIENCE.format("idle_session_timeout"),
}


def is_disconnect(error: psycopg.Error) -> bool:
    """Tell a lost or refused connection from a refused statement."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state.startswith("08") or state in _HUNG_UP


def is_outlasted(error: BaseException | None) -> bool:
    """Whether the server ended a transaction, or what was raised for it, for having taken too long.

    The next one is as likely to: that is no matter of the connection.
    """
    while error is not None:
        if isinstance(error, psycopg.Error) and error.sqlstate in _OUTLASTED:
            return True
        error = error.__cause__ or error.__context__
    return False


def is_clash(error: TrunklineError) -> bool:
    """Whether nothing of a transaction was done for a passing reason: the same again may succeed.

    Another transaction was in the way, or the connection had a stale plan.
    """
    if not isinstance(error, DatabaseError):
        return False
    return error.sqlstate in _CLASHES or is_stale_plan(error)


def is_stale_plan(error: BaseException) -> bool:
    """Whether a prepared statement has other columns since ALTER TABLE or an upgrade.

    Its connection refuses the statement until it is prepared again.
    """
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    if not isinstance(cause, psycopg.errors.FeatureNotSupported):
        return False
    return cause.diag.source_function == _PLAN_CHECK


def is_shortage(error: DatabaseError) -> bool:
    """Whether the server lacked room, or somebody held a lock for too long: no value is at fault.

    It passes by itself, or when somebody sees to the server.
    """
    state = error.sqlstate or ""
    return state.startswith("53") or state == "55P03"


def from_database(error: psycopg.Error, *, role: str | None = None) -> TrunklineError:
    """Translate a driver error by its SQLSTATE; the caller raises it ``from`` the original.

    ``role`` is the role in which the statement ran, if that is known.
    """
    state, diag = error.sqlstate, error.diag
    message = diag.message_primary or str(error).strip() or type(error).__name__
    hint = diag.message_hint or _HINTS.get(state or "", "")
    if state in _BY_STATE:
        _drop_context(error)
        return _BY_STATE[state](message, hint=hint, details=_details(diag.message_detail))
    if is_disconnect(error):
        return Unavailable(message, hint=hint or "Is the server running and the DSN right?")
    if state == "42501":
        details = {"role": role} if role else {}
        return Forbidden(message, hint=hint or _missing_right(error, role), details=details)
    if state in _MISSING_SCHEMA and "trunkline" in message:
        types = "Check the types of the arguments. " if state == "42883" else ""
        return SchemaMismatch(
            message, hint=f"{types}If the schema is missing or old, run: trunkline db install"
        )
    if state in {"3F000", "42P01", "42602"}:
        kind = Invalid if state == "42602" else NotFound
        return kind(message, hint=hint or 'Name it as SQL does: schema.table, or "Table".')
    unfit = isinstance(error, psycopg.DataError) or message.startswith("cannot adapt type")
    if state in _BAD_VALUE or (state is None and unfit):
        return Invalid(" ".join(filter(None, (f"{message}.", diag.message_detail))), hint=hint)
    if state in _CLASHES:
        hint = _AGAIN
    return DatabaseError(message, sqlstate=state, hint=hint)


def _missing_right(error: psycopg.Error, role: str | None) -> str:
    """Say what gives a role the right that it lacks, where the error itself has no hint."""
    message, to = error.diag.message_primary or "", f' to "{role}"' if role else ""
    if error.diag.source_function == _POLICY_CHECK:
        asks = f' of "{role}"' if role else ""
        return f"A policy of the table refuses this row{asks}. Send what the policy allows."
    if "live_subscribe" in message:
        named = role or "<role>"
        return f"Run: trunkline live allow {named}; or in SQL: live_allow('{named}')."
    if _OF_A_RELATION.search(message):
        return f"Have its owner grant the right{to}."
    return f"Grant trunkline_reader, _writer or _admin{to}."


def _drop_context(error: psycopg.Error) -> None:
    """Leave out of its text which functions called each other; ``diag.context`` still has it."""
    text, found, _ = str(error).partition("\nCONTEXT:")
    if found:
        error.args = (text, *error.args[1:])


def _details(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {"detail": text}
    return value if isinstance(value, dict) else {"detail": value}
