"""Bodies of requests: what is wrong with one is told by name, and none is too large."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)

from trunkline.core import durations
from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trunkline.log.models import Start

_WORDS = ("earliest", "hot", "latest")
_EXAMPLES = "For example: earliest, latest, 120, 2030-01-31T12:00:00Z."


class Body(BaseModel):
    """A JSON object in which every name counts."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _number(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,40}", value, re.ASCII):
        value = int(value)
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise ValueError(f"a number has 64 bits, got {value}")
    return value


def _duration(value: Any) -> Any:
    if not isinstance(value, str):
        raise ValueError(f"a duration is a text. {durations.EXAMPLES}")  # noqa: TRY004
    try:
        return durations.parse(value, name="it")
    except Invalid as error:
        raise ValueError(f"{error.message} {error.hint}".strip().rstrip(".")) from None


def _time(value: Any) -> Any:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("a time is a text such as 2030-01-31T12:00:00Z") from None
    if found.tzinfo is None:
        raise ValueError("a time has its offset from UTC: 2030-01-31T12:00:00Z")
    return found


def _content(value: Any) -> Any:
    """The bytes of a text or of ``{"base64": ...}``."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"base64"} and isinstance(value["base64"], str):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (ValueError, binascii.Error):
            raise ValueError("this is not base64") from None
    if value is None:
        return None
    raise ValueError('expected a text or {"base64": "..."}')


Number = Annotated[
    int,
    BeforeValidator(_number),
    WithJsonSchema({"type": ["string", "integer"], "examples": ["120"]}),
]
"""A number that may be too large for a double: a text, or a number."""

Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    WithJsonSchema({"type": "string", "examples": ["7d", "1h 30m"]}),
]
Time = Annotated[
    datetime,
    BeforeValidator(_time),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Content = Annotated[
    bytes | None,
    BeforeValidator(_content),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"base64": {"type": "string"}},
                    "required": ["base64"],
                },
                {"type": "null"},
            ]
        }
    ),
]
Condition = Annotated[
    str | dict[str, Any] | None,
    Field(
        description="SQL over e and s, or the JSON form; none: every event.",
        examples=[{"topic": "orders.*"}],
    ),
]
Params = Annotated[
    dict[str, Any] | None, Field(description="What the condition reads as s.params.")
]

T = TypeVar("T")


def parse(model: TypeAdapter[T], raw: bytes) -> T:
    """A body as a model; what is wrong is told as of any other body."""
    try:
        return model.validate_json(raw)
    except ValidationError as error:
        raise _of_body(error) from None


def check(model: TypeAdapter[T], value: Any) -> T:
    """As `parse`, for what was read already."""
    try:
        return model.validate_python(value)
    except ValidationError as error:
        raise _of_body(error) from None


def _of_body(error: ValidationError) -> RequestValidationError:
    return RequestValidationError(
        [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)]
    )


def expected(content: Mapping[str, Any]) -> dict[str, Any]:
    """For OpenAPI, the body of a route that reads it by itself, by media type."""
    return {"requestBody": {"required": True, "content": dict(content)}}


def json_schema(model: Any) -> dict[str, Any]:
    """The schema of a body in one piece: what it refers to is nowhere else in the document."""
    whole = TypeAdapter(model).json_schema()
    parts = whole.pop("$defs", {})

    def inlined(value: Any) -> Any:
        if isinstance(value, list):
            return [inlined(item) for item in value]
        if not isinstance(value, dict):
            return value
        if (name := value.get("$ref")) is not None:
            return inlined(parts[name.rpartition("/")[2]])
        return {name: inlined(item) for name, item in value.items()}

    found: dict[str, Any] = inlined(whole)
    return found


def start(text: str, *, name: str = "from", words: tuple[str, ...] = _WORDS) -> Start:
    """A place to begin: one of the words, a number, or a time."""
    word = text.strip()
    if word.lower() in words:
        return word.lower()
    if re.fullmatch(r"-?\d{1,19}", word, re.ASCII):
        return int(word)
    try:
        found: datetime = _time(word.replace(" ", "+"))  # a plus that was not escaped in a URL
    except ValueError:
        raise Invalid(
            f'{name} takes {", ".join(words)}, a number or a time, got "{word[:80]}".',
            hint=_EXAMPLES,
        ) from None
    return found
