"""A `Call` is a value: which SQL function, with which arguments, giving which rows.

Capabilities describe what they ask of the database in their ``calls.py``; `AsyncDb` and `Db` run
the same values, so that nothing is written twice for the two kinds of client.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache, wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar

from trunkline.core.arguments import DURATION, MOMENT, checked
from trunkline.core.errors import Invalid, SchemaMismatch
from trunkline.core.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from trunkline.core.db import AsyncDb, Db

_INT = 2**31

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One SQL function call and how to read its answer."""

    function: str
    arguments: Mapping[str, Any]
    shape: Callable[[list[dict[str, Any]]], T]
    safe_to_repeat: bool = False
    binary: bool = False
    json_text: bool = False
    """Whether jsonb comes as `JsonText`, not as what it means."""
    json_unread: bool = False
    """Whether jsonb that Python cannot hold comes as `Unread`; otherwise the call fails."""
    readable: str = ""
    """The function to ask the same of when one row is larger than the server can send."""
    types: Mapping[str, str] = field(default_factory=dict)

    def statement(self) -> bytes:
        """``select * from trunkline.f(name => value, ...)``, composed once per shape."""
        marks = ("%b" if isinstance(value, bytes) else "%s" for value in self.arguments.values())
        return _statement(self.function, self._passed(marks))

    def numbered(self) -> bytes:
        """The same with the placeholders of the server instead of the driver's."""
        marks = (f"${place}" for place in range(1, len(self.arguments) + 1))
        return _statement(self.function, self._passed(marks))

    def _passed(self, marks: Iterable[str]) -> tuple[tuple[str, str, str], ...]:
        return tuple(
            (name, mark, self.types.get(name, ""))
            for name, mark in zip(self.arguments, marks, strict=True)
        )

    def values(self) -> list[Any]:
        """The arguments in the order of the statement."""
        return [moment(value) for value in self.arguments.values()]

    def refuse_too_large(self) -> None:
        """Name the number that fits no function: the database names only the types."""
        for name, value in self.arguments.items():
            if isinstance(value, int) and not -_INT <= value < _INT:
                raise Invalid(
                    f"{name} is out of range, got {value}.",
                    hint="Or the schema is older than this program: trunkline db verify",
                )

    def refuse_unreadable(self, error: Exception) -> None:
        """Name the text that is no time or duration: the database names only the type."""
        told = str(error)
        for name, value in self.arguments.items():
            if isinstance(value, str) and f'"{value}"' in told:
                what, hint = ("a duration", DURATION) if "interval" in told else ("a time", MOMENT)
                raise Invalid(f'{name} is {what}, got "{value}".', hint=hint) from error


def moment(value: Any) -> Any:
    """A time without a zone is one of this machine, not of the server; all else as it is."""
    if not isinstance(value, datetime) or value.tzinfo is not None:
        return value
    try:
        return value.astimezone()
    except (ValueError, OverflowError):  # at the ends of time
        return value.replace(tzinfo=UTC)


def duration(name: str, value: Any) -> Any:
    """How long; a text is for the server to understand. Bare numbers have no unit."""
    if isinstance(value, timedelta | str | None):
        return value
    raise Invalid(f"{name} is a timedelta, got {value!r}.", hint=DURATION)


def as_json(value: Any, *, of: str) -> str:
    """A value as JSON; `Invalid` for what JSON cannot hold."""
    if isinstance(value, Unread):
        return str(value)
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"the {of} cannot be written as JSON: {error}.",
            hint="Use text, finite numbers, booleans, None, lists, and dicts with text as keys.",
        ) from None


@lru_cache(maxsize=512)
def _statement(function: str, arguments: tuple[tuple[str, str, str], ...]) -> bytes:
    passed = ", ".join(
        f'"{name}" => {mark}{"::" + cast if cast else ""}' for name, mark, cast in arguments
    )
    return f'select * from trunkline."{function}"({passed})'.encode()


def scalar(rows: list[dict[str, Any]]) -> Any:
    """The only column of the only row."""
    return next(iter(rows[0].values()))


def nothing(_rows: list[dict[str, Any]]) -> None:
    """For functions that return void."""


def one(make: Callable[..., T]) -> Callable[[list[dict[str, Any]]], T]:
    """The only row, as `made` makes it."""
    return lambda rows: made(make, rows[0])


def many(make: Callable[..., T]) -> Callable[[list[dict[str, Any]]], list[T]]:
    """Every row, as `made` makes it."""
    return lambda rows: [made(make, row) for row in rows]


def made(make: Callable[..., T], row: Mapping[str, Any]) -> T:
    """Call ``make`` with the columns of a row that it takes; a newer schema may return more.

    Raises `SchemaMismatch` where a column is missing for which ``make`` has no default.
    """
    taken = _taken(make, tuple(row))
    return make(**row) if taken is None else make(**{name: row[name] for name in taken})


@lru_cache(maxsize=1024)
def _taken(make: Callable[..., Any], columns: tuple[str, ...]) -> tuple[str, ...] | None:
    """The columns to pass; None for all."""
    try:
        parameters = signature(make).parameters
    except ValueError:  # a builtin such as dict
        return None
    for name, parameter in parameters.items():
        if parameter.default is Parameter.empty and name not in columns:
            raise SchemaMismatch(
                f'the schema returns no column "{name}" for {getattr(make, "__name__", make)}.',
                hint="The schema is older than this package. Run: trunkline db install",
            )
    taken = tuple(name for name in columns if name in parameters)
    return None if taken == columns else taken


class AsyncFace:
    """What has an `AsyncDb`; its methods are made by `awaited`."""

    _db: AsyncDb


class SyncFace:
    """What has a `Db`; its methods are made by `blocking`."""

    _db: Db


def awaited(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate[Any, P], Awaitable[T]]:
    """A method of an `AsyncFace` that runs the call that ``build`` describes."""
    describe = checked(build)

    @wraps(build)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        found: Awaitable[T] = self._db.run(describe(*args, **kwargs))
        return found

    return method


def awaited_on(build: Callable[..., Call[T]]) -> Callable[..., Awaitable[T]]:
    """`awaited`, for what may be part of the caller's transaction: ``on`` is its connection."""
    describe = checked(build)

    @wraps(build)
    def method(self: Any, /, *args: Any, on: Any = None, **kwargs: Any) -> Awaitable[T]:
        found: Awaitable[T] = self._db.run(describe(*args, **kwargs), on=on)
        return found

    method.__signature__ = _with_on(build)  # type: ignore[attr-defined]
    return method


def blocking(
    build: Callable[P, Call[T]],
) -> Callable[Concatenate[Any, P], T]:
    """A method of a `SyncFace` that runs the call that ``build`` describes."""
    describe = checked(build)

    @wraps(build)
    def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        found: T = self._db.run(describe(*args, **kwargs))
        return found

    return method


def blocking_on(build: Callable[..., Call[T]]) -> Callable[..., T]:
    """`blocking`, for what may be part of the caller's transaction: ``on`` is its connection."""
    describe = checked(build)

    @wraps(build)
    def method(self: Any, /, *args: Any, on: Any = None, **kwargs: Any) -> T:
        found: T = self._db.run(describe(*args, **kwargs), on=on)
        return found

    method.__signature__ = _with_on(build)  # type: ignore[attr-defined]
    return method


def _with_on(build: Callable[..., Any]) -> Signature:
    described = signature(build)
    on = Parameter("on", Parameter.KEYWORD_ONLY, default=None)
    return described.replace(parameters=[*described.parameters.values(), on])
