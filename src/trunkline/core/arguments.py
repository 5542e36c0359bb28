"""What a function says of its parameters, held against what it is given.

Without that a wrong argument would be told by whatever meets it first: a line deep inside, or the
server, which finds no function for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import wraps
from inspect import iscoroutinefunction, signature
from math import isnan
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")
P = ParamSpec("P")

DURATION = 'For example timedelta(minutes=5), or "5 minutes".'
MOMENT = 'For example datetime.now(UTC), or "2030-01-31 12:00Z".'
_INNER = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a word in an annotation asks for."""

    told: str
    types: tuple[type, ...]
    except_for: tuple[type, ...] = ()
    hint: str = ""


_TEXTS = (str, bytes, bytearray, memoryview)
_KINDS = {
    "str": Kind("text", (str,)),
    "bytes": Kind("bytes", (bytes,)),
    "int": Kind("a whole number", (int, Integral), (bool,)),
    "float": Kind("a number of seconds", (float, int, Real, Decimal), (bool,)),
    "bool": Kind("True or False", (bool,)),
    # texts of times are for the server to understand
    "timedelta": Kind("a timedelta", (timedelta, str), hint=DURATION),
    "datetime": Kind("a datetime", (datetime, date, str), hint=MOMENT),
    "Mapping": Kind("a dict", (dict, Mapping)),
    "dict": Kind("a dict", (dict, Mapping)),
    "Sequence": Kind("a list", (list, tuple, Iterable), (*_TEXTS, Mapping)),
    "Iterable": Kind("a list", (list, tuple, Iterable), (*_TEXTS, Mapping)),
    "tuple": Kind("a tuple", (Iterable,), (*_TEXTS, Mapping)),
    "Callable": Kind("a function", (Callable,)),  # type: ignore[arg-type]
    "None": Kind("", (type(None),)),
}


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function; `Invalid` when an argument is not what its annotation says.

    Annotations are read as words: those with a word that is not in the list above ask for nothing.
    """
    parameters = signature(function).parameters
    wanted = {name: _kinds(str(each.annotation)) for name, each in parameters.items()}
    sure = {name: _sure(kinds) for name, kinds in wanted.items()}
    names = tuple(parameters)

    def check(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        for name, value in (*zip(names, args, strict=False), *kwargs.items()):
            if name in sure and type(value) not in sure[name]:
                _insist(name, value, wanted[name])

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        check(args, kwargs)
        return function(*args, **kwargs)

    @wraps(function)
    async def call_async(*args: P.args, **kwargs: P.kwargs) -> Any:
        check(args, kwargs)
        return await cast("Awaitable[Any]", function(*args, **kwargs))

    return cast("Callable[P, T]", call_async) if iscoroutinefunction(function) else call


def _kinds(annotation: str) -> tuple[Kind, ...]:
    while _INNER.search(annotation):
        annotation = _INNER.sub("", annotation)
    words = [word.strip() for word in annotation.split("|")]
    return tuple(_KINDS[word] for word in words) if all(word in _KINDS for word in words) else ()


def _sure(kinds: tuple[Kind, ...]) -> frozenset[type]:
    """The types of values that need no closer look, as most are."""
    return frozenset(each for kind in kinds for each in kind.types) - {float, Decimal}


def _insist(name: str, value: Any, kinds: tuple[Kind, ...]) -> None:
    if not kinds or any(_fits(value, kind) for kind in kinds):
        return
    told = " or ".join(kind.told for kind in kinds if kind.told)
    hint = " ".join(kind.hint for kind in kinds if kind.hint)
    raise Invalid(f"{name} is {told}, got {value!r:.100}.", hint=hint)


def _fits(value: Any, kind: Kind) -> bool:
    if not isinstance(value, kind.types) or isinstance(value, kind.except_for):
        return False
    return not (isinstance(value, float | Decimal) and isnan(value))
