"""Packaged downstreams, one module each; `make` finds one by its kind."""

from __future__ import annotations

import inspect
import os
import re
from typing import TYPE_CHECKING, Any

from trunkline.core.arguments import checked
from trunkline.core.errors import Invalid
from trunkline.core.extras import needed_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from trunkline.tube.downstreams.base import Downstream

_IN_POSTGRES = frozenset({"postgres", "topic"})
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@checked
def make(kind: str, options: Mapping[str, Any], *, dsn: str) -> Downstream:
    """A downstream of a kind; ``dsn`` is the database of the tube itself.

    ``${NAME}`` in an option is replaced by that environment variable, so that passwords need not be
    stored.
    """
    with needed_for(f"downstream {kind}", kind):
        takes = _maker(kind)
    given = {"dsn": dsn} if kind in _IN_POSTGRES else {}
    given |= {name: _filled(value) for name, value in options.items()}
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
            raise Invalid(
                f'downstream {kind} has no option "{name}".', hint=f"Known: {', '.join(known)}."
            )
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in given:
            raise Invalid(f'downstream {kind} needs the option "{name}".')


def _filled(value: Any) -> Any:
    if not isinstance(value, str):
        return value

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            raise Invalid(f"the environment has no {name}, which a downstream's options name.")
        return os.environ[name]

    return _VARIABLE.sub(fill, value)
