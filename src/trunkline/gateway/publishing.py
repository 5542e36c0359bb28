"""Events on their way in: as JSON of ours, or as CloudEvents in each of their three forms."""

from __future__ import annotations

import base64
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote

from pydantic import Field, TypeAdapter

from trunkline.broker.cloudevents import BATCH, SINGLE, from_cloudevent
from trunkline.broker.models import NewEvent
from trunkline.core.errors import Invalid, TooLarge
from trunkline.core.unread import Unread
from trunkline.gateway.bodies import (
    Body,
    Number,
    Time,
    check,
    expected,
    json_schema,
)
from trunkline.gateway.problems import UnsupportedBody
from trunkline.gateway.reading import read_json
from trunkline.gateway.rendering import written

if TYPE_CHECKING:
    from starlette.datastructures import Headers

_MOST = 10_000
_PREFIX = "ce-"


class EventBody(Body):
    """An event to be published."""

    topic: str
    payload: Annotated[Any, Field(description="Any JSON.")]
    key: Annotated[str | None, Field(description="Events of one key come in order.")] = None
    metadata: dict[str, Any] | None = None
    deliver_at: Annotated[Time | None, Field(description="None: now.")] = None
    subscription: Annotated[Number | None, Field(description="For this one alone.")] = None


_ONE, _MANY = TypeAdapter(EventBody), TypeAdapter(list[EventBody])

_EVENT = {"topic": "orders.made", "key": "7", "payload": {"order": 7}}
_CLOUDEVENT = {
    "specversion": "1.0",
    "id": "1",
    "source": "/shop",
    "type": "orders.made",
    "subject": "7",
    "data": {"order": 7},
}
EXPECTED = expected(
    {
        "application/json": {
            "schema": {"anyOf": [json_schema(EventBody), json_schema(list[EventBody])]},
            "example": _EVENT,
        },
        SINGLE: {"schema": {"type": "object"}, "example": _CLOUDEVENT},
        BATCH: {
            "schema": {"type": "array", "items": {"type": "object"}},
            "example": [_CLOUDEVENT],
        },
    }
)


def new_events(headers: Headers, raw: bytes) -> list[NewEvent]:
    """The events that a request brings."""
    content_type = headers.get("content-type", "")
    kind = content_type.partition(";")[0].strip().lower()
    if kind in {SINGLE, BATCH}:
        given = _read(raw)
        if (kind == BATCH) != isinstance(given, list):
            raise Invalid(f"body: {kind} is {'a list' if kind == BATCH else 'one event'}.")
        found = [from_cloudevent(each) for each in (given if kind == BATCH else [given])]
    elif f"{_PREFIX}specversion" in headers:
        found = [from_cloudevent(_of_headers(headers, content_type, raw))]
    elif kind == "application/json":
        given = _read(raw)
        bodies = check(_MANY, given) if isinstance(given, list) else [check(_ONE, given)]
        found = [NewEvent(**dict(each)) for each in bodies]
    else:
        raise UnsupportedBody(
            f'events do not come as "{kind[:80]}".',
            hint=f"Expected application/json, {SINGLE}, {BATCH}, or headers {_PREFIX}...",
        )
    if not 0 < len(found) <= _MOST:
        raise TooLarge(f"1 to {_MOST} events are published at once, got {len(found)}.")
    return [_exact(event) for event in found]


def _read(raw: bytes) -> Any:
    return read_json(raw, parse_float=Decimal)


def _exact(event: NewEvent) -> NewEvent:
    """The event with its numbers to the last digit: as floats they would be rounded."""
    try:
        metadata: Any = event.metadata and Unread(written(event.metadata))
        return replace(event, payload=Unread(written(event.payload)), metadata=metadata)
    except RecursionError:
        raise Invalid("body: it has more levels than can be read.") from None


def _of_headers(headers: Headers, content_type: str, raw: bytes) -> dict[str, Any]:
    """A CloudEvent in binary mode: attributes are headers, the body is the data."""
    document: dict[str, Any] = {
        name[len(_PREFIX) :]: unquote(value)
        for name, value in headers.items()
        if name.startswith(_PREFIX)
    }
    for name in ("data", "data_base64", "datacontenttype"):
        document.pop(name, None)  # these are no attributes here
    kind = content_type.partition(";")[0].strip().lower()
    if not raw:
        return document
    if content_type:
        document["datacontenttype"] = content_type
    if not kind or kind.endswith(("/json", "+json")):
        document["data"] = _read(raw)
    elif kind.startswith("text/") or kind.endswith(("/xml", "+xml")):
        try:
            document["data"] = raw.decode()
        except UnicodeDecodeError:
            raise Invalid(f"body: {kind} is UTF-8, and this is not.") from None
    else:
        document["data_base64"] = base64.b64encode(raw).decode()
    return document
