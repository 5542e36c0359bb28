"""Conditions in their JSON form, built from parts.

A condition is SQL, a boolean expression over ``e`` and ``s``, or a dict in the JSON form. These
functions make such dicts; what they hold is checked by the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

Form = dict[str, Any]


def topics(
    *patterns: str,
    key: str | Sequence[str] | None = None,
    eq: Mapping[str, Any] | None = None,
    one_of: Mapping[str, Sequence[Any]] | None = None,
    ranges: Mapping[str, Mapping[str, Any]] | None = None,
    contains: Mapping[str, Any] | None = None,
) -> Form:
    """Events whose topic fits one of the patterns and all filters.

    ``*`` stands for one word, ``#`` for any number of them: ``topics("orders.*", "stock.#")``.
    Filters are as in `filters`.
    """
    if not patterns:
        raise Invalid("topics() needs at least one pattern.", hint='"#" stands for every topic.')
    return {
        "topic": patterns[0] if len(patterns) == 1 else list(patterns),
        **filters(key=key, eq=eq, one_of=one_of, ranges=ranges, contains=contains),
    }


def filters(
    *,
    key: str | Sequence[str] | None = None,
    eq: Mapping[str, Any] | None = None,
    one_of: Mapping[str, Sequence[Any]] | None = None,
    ranges: Mapping[str, Mapping[str, Any]] | None = None,
    contains: Mapping[str, Any] | None = None,
) -> Form:
    """Events for which all of this holds; what is None is left out.

    The rest are dicts from a place in the event, as in ``"payload.customer.id"``, to what is wanted
    there: a value, a list of values, a dict of ``gt``, ``gte``, ``lt`` and ``lte``, or a part.
    """
    given: Form = {"key": key, "eq": eq, "in": one_of, "range": ranges, "contains": contains}
    return {word: _plain(value) for word, value in given.items() if value is not None}


def all_of(*forms: Mapping[str, Any]) -> Form:
    """Events for which every one of the conditions holds."""
    return {"and": _some("all_of", forms)}


def any_of(*forms: Mapping[str, Any]) -> Form:
    """Events for which at least one of the conditions holds."""
    return {"or": _some("any_of", forms)}


def none_of(*forms: Mapping[str, Any]) -> Form:
    """Events for which none of the conditions holds."""
    return {"not": any_of(*forms)}


def as_text(condition: str | Mapping[str, Any] | None) -> str | None:
    """A condition as `broker_subscribe` takes it; None asks for every event."""
    if condition is None or isinstance(condition, str):
        return condition
    if not isinstance(condition, Mapping):
        raise Invalid(f"a condition is SQL or a dict, got {condition!r}.")
    try:
        return json.dumps(_plain(condition), allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise Invalid(f"the condition cannot be written as JSON: {error}.") from None


def _some(name: str, forms: tuple[Mapping[str, Any], ...]) -> list[Form]:
    if not forms:
        raise Invalid(f"{name}() needs at least one condition.")
    for form in forms:
        if not isinstance(form, Mapping):
            raise Invalid(f"{name}() takes conditions in the JSON form, got {form!r:.100}.")
    return [dict(form) for form in forms]


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [_plain(item) for item in value]
    return value
