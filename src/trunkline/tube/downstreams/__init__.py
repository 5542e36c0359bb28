"""Packaged downstreams, one module each; `make` finds one by its kind, `stored` a stored one."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from trunkline.core.arguments import checked
from trunkline.core.errors import Forbidden, Invalid
from trunkline.core.extras import needed_for
from trunkline.tube.downstreams.variables import any_variable, filled, shared_variable, trusted_dsn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trunkline.tube.downstreams.base import Downstream

_IN_POSTGRES = frozenset({"postgres", "topic"})


@checked
def make(kind: str, options: Mapping[str, Any], *, dsn: str) -> Downstream:
    """A downstream of a kind; ``dsn`` is the database of the tube itself.

    ``${NAME}`` in an option is replaced by that environment variable, so that passwords need not be
    stored.
    """
    return _made(kind, {name: filled(value, any_variable) for name, value in options.items()}, dsn)


def stored(
    kind: str, options: Mapping[str, Any], *, dsn: str, author: str | None, callables: str
) -> Downstream:
    """A downstream that the role ``author`` stored.

    It gets the variables ``TRUNKLINE_DOWNSTREAM_*`` only, loads only functions that ``callables``
    lists, and connects to another database only with what it names itself.
    """
    given = {name: filled(value, shared_variable) for name, value in options.items()}
    if kind == "callable":
        for name in ("target", "older_than"):
            _check_callable(given.get(name), callables)
    if kind in _IN_POSTGRES:
        if "author" in given:
            raise Invalid(f'downstream {kind} has no option "author".')
        if "dsn" in given:
            given["dsn"] = trusted_dsn(options["dsn"], given["dsn"])
        else:
            given["author"] = author
    return _made(kind, given, dsn)


def _check_callable(target: Any, allowed: str) -> None:
    """Refuse a function that the operator of the worker did not list."""
    if target is None:
        return
    patterns = [pattern.strip() for pattern in allowed.split(",") if pattern.strip()]
    if not any(target == pattern or _in_module(target, pattern) for pattern in patterns):
        raise Forbidden(
            f'the worker may not load "{target}".',
            hint="List it in TRUNKLINE_CALLABLES of the worker, as module:function or module:*.",
        )


def _in_module(target: Any, pattern: str) -> bool:
    return pattern.endswith(":*") and isinstance(target, str) and target.startswith(pattern[:-1])


def _made(kind: str, options: Mapping[str, Any], dsn: str) -> Downstream:
    with needed_for(f"downstream {kind}", kind):
        takes = _maker(kind)
    given = {"dsn": dsn} if kind in _IN_POSTGRES else {}
    given |= options
    _check_names(kind, takes, given)
    try:
        return takes(**given)
    except (TypeError, ValueError, AttributeError, OSError) as error:
        raise Invalid(f"downstream {kind}: {error}.") from None


def check(kind: str, options: Iterable[str]) -> None:
    """Refuse names of options that a kind does not take, and miss none that it needs.

    Values are looked at when it runs, there where the environment is that ``${NAME}`` means.
    """
    try:
        takes = _maker(kind)
    except ImportError:  # it may run where the package is
        return
    _check_names(kind, takes, {"dsn", *options} if kind in _IN_POSTGRES else options)


def _maker(kind: str) -> Callable[..., Downstream]:
    if kind == "postgres":
        from trunkline.tube.downstreams.postgres import PostgresDownstream

        return PostgresDownstream
    if kind == "redis":
        from trunkline.tube.downstreams.redis import RedisDownstream

        return RedisDownstream
    if kind == "opensearch":
        from trunkline.tube.downstreams.opensearch import OpenSearchDownstream

        return OpenSearchDownstream
    if kind == "topic":
        from trunkline.tube.downstreams.topic import TopicDownstream

        return TopicDownstream
    if kind == "callable":
        from trunkline.tube.downstreams.callable import CallableDownstream

        return CallableDownstream.load
    raise Invalid(
        f'there is no downstream "{kind}".',
        hint="Expected postgres, redis, opensearch, topic or callable.",
    )


def _check_names(kind: str, takes: Callable[..., Downstream], given: Iterable[str]) -> None:
    known = inspect.signature(takes).parameters
    for name in given:
        if name not in known:
            names = ", ".join(option for option in known if option != "author")
            raise Invalid(f'downstream {kind} has no option "{name}".', hint=f"Known: {names}.")
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in given:
            raise Invalid(f'downstream {kind} needs the option "{name}".')
