"""Events as CloudEvents 1.0 and back: structured JSON, one or a batch.

The topic is the ``type``, the key the ``subject``, the event's id the ``id``; ``source`` is that of
the installation, so that source and id together are unique. The trace of the metadata becomes the
extensions ``traceparent`` and ``tracestate``; the rest of the metadata is the extension
``metadata``, as JSON in a text, because extensions have no structure.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC
from typing import TYPE_CHECKING, Any

from trunkline.broker.models import NewEvent
from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trunkline.broker.delivered import Delivered
    from trunkline.broker.models import Event
    from trunkline.broker.stream import StreamEvent

VERSION = "1.0"
SINGLE = "application/cloudevents+json"
BATCH = "application/cloudevents-batch+json"

TRACE = ("traceparent", "tracestate")
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_REQUIRED = ("id", "source", "specversion", "type")
_CORE = {*_REQUIRED, "subject", "time", "datacontenttype", "data", "data_base64", "metadata"}


def to_cloudevent(event: Event, source: str) -> dict[str, Any]:
    """An event as a CloudEvent, ready for JSON."""
    return {**_attributes(event, event.metadata or {}, source), "data": event.payload}


def _attributes(
    event: Event | StreamEvent | Delivered, given: Mapping[str, Any], source: str
) -> dict[str, Any]:
    metadata = dict(given)
    trace = {name: metadata.pop(name) for name in TRACE if isinstance(metadata.get(name), str)}
    made: dict[str, Any] = {
        "specversion": VERSION,
        "id": str(event.event_id),
        "source": source,
        "type": event.topic,
        "time": event.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        **trace,
    }
    if event.key:  # a subject is not empty
        made["subject"] = event.key
    if metadata:
        made["metadata"] = json.dumps(metadata, ensure_ascii=False)
    return made


def as_text(event: Event | StreamEvent | Delivered, source: str) -> str:
    """An event, whose payload and metadata are JSON as the server writes it, as a CloudEvent.

    Numbers keep all their digits: only metadata with a trace is read.
    """
    text = str(event.metadata or "{}")
    metadata = json.loads(text) if any(f'"{name}"' in text for name in TRACE) else None
    made = _attributes(event, metadata or {}, source)
    if metadata is None and text != "{}":
        made["metadata"] = text
    return f'{_json(made)[:-1]},"data":{event.payload}}}'


def to_batch(events: Iterable[Event], source: str) -> list[dict[str, Any]]:
    """Events as a batch of CloudEvents."""
    return [to_cloudevent(event, source) for event in events]


def from_cloudevent(document: Mapping[str, Any]) -> NewEvent:
    """A CloudEvent as an event to be published.

    Its id, source, time and other attributes are kept in the metadata as ``cloudevent``. Data that
    is not JSON becomes a text; binary data stays base64.
    """
    if not isinstance(document, dict):
        raise Invalid(f"a CloudEvent is a JSON object, got {_kind(document)}.")
    for name in _REQUIRED:
        if not isinstance(document.get(name), str) or not document[name]:
            raise Invalid(
                f'a CloudEvent has the text "{name}", got {_short(document.get(name))}.',
                hint=f"It needs {', '.join(_REQUIRED)}.",
            )
    if document["specversion"] != VERSION:
        raise Invalid(f"expected specversion {VERSION}, got {_short(document['specversion'])}.")
    subject = document.get("subject")
    if subject is not None and not isinstance(subject, str):
        raise Invalid(f"a subject is a text, got {_short(subject)}.")
    return NewEvent(
        document["type"], _data(document), subject or None, _metadata(document), None, None
    )


def from_json(text: str | bytes) -> list[NewEvent]:
    """Read one CloudEvent or a batch of them."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Invalid(f"expected CloudEvents as JSON: {error}.") from None
    return [from_cloudevent(each) for each in (found if isinstance(found, list) else [found])]


def _data(document: Mapping[str, Any]) -> Any:
    encoded = document.get("data_base64")
    if encoded is None:
        return document.get("data")
    if "data" in document:
        raise Invalid('a CloudEvent has "data" or "data_base64", not both.')
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (TypeError, binascii.Error):
        raise Invalid(f'"data_base64" is base64, got {_short(encoded)}.') from None
    if _is_json(document.get("datacontenttype")):
        try:
            return json.loads(raw)
        except ValueError as error:
            raise Invalid(f'"data_base64" is not the JSON that it says it is: {error}.') from None
    return encoded


def _is_json(content_type: Any) -> bool:
    kind = str(content_type or "application/json").partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def _metadata(document: Mapping[str, Any]) -> dict[str, Any]:
    ours = _own_metadata(document.get("metadata"))
    others = {
        name: value
        for name, value in document.items()
        if name not in _CORE and name not in TRACE and value is not None
    }
    trace = {name: document[name] for name in TRACE if document.get(name)}
    about = {name: document[name] for name in ("id", "source", "time") if document.get(name)}
    if not _is_json(document.get("datacontenttype")):
        about["datacontenttype"] = document["datacontenttype"]
    return {**ours, **trace, "cloudevent": {**about, **others}}


def _own_metadata(text: Any) -> dict[str, Any]:
    """The extension `metadata` as we write it; anybody else's is kept as it is."""
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        found = None
    return found if isinstance(found, dict) else {"metadata": text}


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def _short(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:80]
