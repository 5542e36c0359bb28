"""Packaged downstreams, one module each; `make` finds one by its kind."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trunkline.tube.downstreams.base import Downstream

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def make(kind: str, options: Mapping[str, Any], *, dsn: str) -> Downstream:
    """A downstream of a kind; ``dsn`` is the database of the tube itself.

    ``${NAME}`` in an option is replaced by that environment variable, so that passwords need not be
    stored.
    """
    given = {name: _filled(value) for name, value in options.items()}
    try:
        if kind == "postgres":
            from trunkline.tube.downstreams.postgres import PostgresDownstream

            return PostgresDownstream(**{"dsn": dsn, **given})
        if kind == "redis":
            from trunkline.tube.downstreams.redis import RedisDownstream

            return RedisDownstream(**given)
        if kind == "opensearch":
            from trunkline.tube.downstreams.opensearch import OpenSearchDownstream

            return OpenSearchDownstream(**given)
        if kind == "topic":
            from trunkline.tube.downstreams.topic import TopicDownstream

            return TopicDownstream(**{"dsn": dsn, **given})
        if kind == "callable":
            from trunkline.tube.downstreams.callable import CallableDownstream

            return CallableDownstream.load(**given)
    except (TypeError, ValueError, AttributeError, OSError) as error:
        raise Invalid(f"downstream {kind}: {error}.") from None
    except ImportError as error:
        raise Invalid(
            f"downstream {kind} needs the package {error.name}.",
            hint=f"Run: pip install 'trunkline[{kind}]'",
        ) from error
    raise Invalid(
        f'there is no downstream "{kind}".',
        hint="Expected postgres, redis, opensearch, topic or callable.",
    )


def _filled(value: Any) -> Any:
    if not isinstance(value, str):
        return value

    def fill(found: re.Match[str]) -> str:
        name = found[1]
        if name not in os.environ:
            raise Invalid(f"the environment has no {name}, which a downstream's options name.")
        return os.environ[name]

    return _VARIABLE.sub(fill, value)
