"""`Options`: what a user says with ``.option(...)``, checked before anything runs.

Names are Spark's: camel case, and upper and lower case are one. An option that nobody knows is
refused with the list of those that there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A comma separated list."""


class Options(BaseModel):
    """Options that every source and sink takes; others are added by subclasses."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True
    )

    dsn: str | None = Field(default=None, min_length=1, repr=False)
    """The database; else TRUNKLINE_DSN, DATABASE_URL, PG*, .env; else the embedded server."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Read a mapping of options; `Invalid` with one sentence per mistake."""
        names = {alias.lower(): alias for alias in cls.names()}
        if unknown := sorted(name for name in given if name.lower() not in names):
            raise Invalid(
                f"there is no option {', '.join(unknown)}.",
                hint=f"Options are: {', '.join(cls.names())}.",
            )
        try:
            return cls.model_validate({names[name.lower()]: given[name] for name in given})
        except ValidationError as error:
            raise Invalid(" ".join(map(_sentence, error.errors()))) from None

    @classmethod
    def names(cls) -> list[str]:
        """The names of all options."""
        return [field.alias or name for name, field in cls.model_fields.items()]


def _sentence(mistake: Any) -> str:
    name = ".".join(str(part) for part in mistake["loc"][:1])
    if mistake["type"] == "missing":
        return f"option {name} is missing."
    said = mistake["msg"].removeprefix("Value error, ").rstrip(".")
    if not name:
        return f"{said}."
    shown = "" if name == "dsn" else f", got {mistake['input']!r:.120}"
    return f"option {name}: {said[:1].lower()}{said[1:]}{shown}."
