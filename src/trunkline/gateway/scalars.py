"""Values of columns as GraphQL has them: nothing loses a digit.

A number that JSON's readers would round, of ``bigint`` or ``numeric``, is text. The same holds for
the rows of plain server-sent events (`told`).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from graphql import (
    GraphQLBoolean,
    GraphQLError,
    GraphQLFloat,
    GraphQLInt,
    GraphQLScalarType,
    GraphQLString,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.live.models import LiveColumn

_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|nan|[+-]?infinity", re.ASCII | re.IGNORECASE
)
_LENGTH = re.compile(r"\s*\(.*?\)")
_LONGEST = 1_000  # characters of a number


def digits(value: Any) -> Any:
    """A number as text with all its digits; what is no number as it is."""
    if isinstance(value, Decimal):
        return format(value, "f") if value.is_finite() else str(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return repr(value)


def _whole(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, str) and len(value) <= _LONGEST and _WHOLE.fullmatch(value):
        return value
    raise GraphQLError(f"BigInt is a whole number, best as a text; got {value!r:.100}.")


def _number(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    if isinstance(value, str) and len(value) <= _LONGEST and _NUMBER.fullmatch(value):
        return value
    raise GraphQLError(f"Decimal is a number, best as a text; got {value!r:.100}.")


def _text_of(name: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise GraphQLError(f"{name} is a text; got {value!r:.100}.")
        return value

    return read


def _same(value: Any) -> Any:
    return value


def _scalar(
    name: str, description: str, read: Callable[[Any], Any], write: Callable[[Any], Any] = _same
) -> GraphQLScalarType:
    return GraphQLScalarType(
        name, coerce_output_value=write, coerce_input_value=read, description=description
    )


def _text_scalar(name: str, description: str) -> GraphQLScalarType:
    return _scalar(name, description, _text_of(name))


BIG_INT = _scalar("BigInt", "A whole number of any size, as text.", _whole, digits)
DECIMAL = _scalar("Decimal", "An exact number, as text.", _number, digits)
DATE_TIME = _text_scalar("DateTime", "A date with a time, as ISO 8601 has it.")
DATE = _text_scalar("Date", "A date, as ISO 8601 has it.")
TIME = _text_scalar("Time", "A time of day, as ISO 8601 has it.")
UUID = _text_scalar("UUID", "A universally unique identifier.")
BYTES = _text_scalar("Bytes", r"Bytes in hexadecimal, after \x.")
JSON = _scalar("JSON", "Any value of JSON.", _same)

ALL = (BIG_INT, DECIMAL, DATE_TIME, DATE, TIME, UUID, BYTES, JSON)

_FLOATS = {"real", "double precision"}
_BY_TYPE = {
    "smallint": GraphQLInt,
    "integer": GraphQLInt,
    "bigint": BIG_INT,
    "numeric": DECIMAL,
    "real": GraphQLFloat,
    "double precision": GraphQLFloat,
    "boolean": GraphQLBoolean,
    "timestamp with time zone": DATE_TIME,
    "timestamp without time zone": DATE_TIME,
    "date": DATE,
    "time without time zone": TIME,
    "time with time zone": TIME,
    "uuid": UUID,
    "bytea": BYTES,
    "json": JSON,
    "jsonb": JSON,
    "text": GraphQLString,
    "character varying": GraphQLString,
    "character": GraphQLString,
    "name": GraphQLString,
}


def base(column: LiveColumn) -> str:
    """The type of a column without brackets and lengths."""
    return _LENGTH.sub("", column.type.removesuffix("[]"))


def scalar_of(column: LiveColumn) -> GraphQLScalarType:
    """What a column, or an element of it, is in GraphQL; JSON where nothing else is known."""
    if column.labels:
        return GraphQLString
    return _BY_TYPE.get(base(column), JSON)


def writer(column: LiveColumn) -> Callable[[Any], Any]:
    """How values of a column are told in GraphQL; a float that is no number is null there."""
    if base(column) in _FLOATS:
        return lambda value: _each(value, lambda number: _float(number, otherwise=None))
    return _same


def told(column: LiveColumn) -> Callable[[Any], Any]:
    """How values of a column are told in plain JSON; a float that is no number is text there."""
    if base(column) in {"bigint", "numeric"}:
        return lambda value: _each(value, digits)
    if base(column) in _FLOATS:
        return lambda value: _each(value, lambda number: _float(number, otherwise=number))
    return _same


def _float(value: Any, *, otherwise: Any) -> Any:
    return otherwise if isinstance(value, str) else float(value)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list):
        return [_each(element, change) for element in value]
    return None if value is None else change(value)
