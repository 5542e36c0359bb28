"""Parameters of a URL: one that a route does not know is refused, for it would change nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import Request  # noqa: TC002 - read by FastAPI

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fastapi.dependencies.models import Dependant

_OF_ALL = frozenset({"access_token"})


async def known_parameters(request: Request) -> None:
    """Raises `Invalid` for a parameter that the route does not have."""
    known = set(_names(request.scope["route"].dependant))
    if unknown := sorted(set(request.query_params) - known - _OF_ALL):
        there = f"There are: {', '.join(sorted(known))}." if known else "There is none here."
        raise Invalid(f'there is no parameter "{unknown[0][:80]}".', hint=there)


def _names(dependant: Dependant) -> Iterator[str]:
    for field in dependant.query_params:
        yield field.alias
    for part in dependant.dependencies:
        yield from _names(part)
