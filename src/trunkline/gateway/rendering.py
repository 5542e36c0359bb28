"""Values as JSON: ours with wide numbers as texts, JSON of users and numbers just as they are."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any
from uuid import UUID

from starlette.responses import Response

from trunkline.core import durations
from trunkline.core.unread import JsonText

# Offsets, positions and ids, of errors too; counts stay numbers, whatever they are called.
WIDE = frozenset(
    {
        "archived_first",
        "archived_last",
        "asked",
        "backfill",
        "backfill_up_to",
        "claim",
        "cut",
        "epoch",
        "delivery",
        "entry",
        "error_position",
        "event_id",
        "event_position",
        "first",
        "first_offset",
        "from",
        "from_position",
        "head",
        "incarnation",
        "last",
        "last_offset",
        "letter",
        "live_up_to",
        "lost_first",
        "lost_last",
        "matched_up_to",
        "offset",
        "position",
        "present",
        "producer_seq",
        "retry",
        "retention_bytes",
        "subscription",
        "trimmed_to",
        "up_to",
        "webhook",
    }
)


def row(thing: Any, *, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a value of ours by name, with numbers that may be large as texts."""
    names = (field.name for field in fields(thing) if field.name not in without)
    return facts({name: getattr(thing, name) for name in names})


def facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, with numbers that may be large as texts."""
    return {name: _wide(name, value) for name, value in values.items()}


def rows(things: Any, *, without: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """Many of them."""
    return [row(thing, without=without) for thing in things]


def page(things: Iterable[Any], number: str, *, after: int, limit: int) -> tuple[list[Any], Any]:
    """Those whose number comes next, and the number to go on after; None: that is all."""
    left = [thing for thing in things if getattr(thing, number) > after]
    shown = sorted(left, key=attrgetter(number))[:limit]
    return rows(shown), str(getattr(shown[-1], number)) if len(shown) < len(left) else None


def _wide(name: str, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and name in WIDE:
        return str(value)
    if isinstance(value, list) and all(isinstance(item, int) for item in value):
        return [str(item) for item in value]  # all lists of numbers are of ids
    return value


def written(value: Any) -> str:
    """A value as JSON without line breaks; `JsonText` goes in as the server wrote it."""
    if isinstance(value, str):
        return value if isinstance(value, JsonText) else encode_basestring(value)
    if isinstance(value, Mapping):
        pairs = (f"{encode_basestring(str(name))}:{written(each)}" for name, each in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, Decimal):
        return str(value)
    return written(row(value)) if is_dataclass(value) else _others.encode(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return content(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return durations.told(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_others = json.JSONEncoder(default=_plain)


def content(value: bytes | None) -> str | dict[str, str] | None:
    """Bytes of a message: the text that they are, or ``{"base64": ...}``."""
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}


class Answer(Response):
    """A value as the answer to a request."""

    media_type = "application/json"

    def __init__(self, value: Any, status: int = 200, headers: dict[str, str] | None = None):
        super().__init__(written(value), status, {"Cache-Control": "no-store", **(headers or {})})
