"""What is posted to a webhook: body, id, headers, signatures. Values in, values out.

The id is made of the endpoint's identity and the ids of the events: the same events have the same
id at every try, also after a restart, and no other set of events has it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from standardwebhooks import Webhook as Signer

from trunkline.broker import cloudevents
from trunkline.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.broker.delivered import Delivered
    from trunkline.broker.endpoints import Endpoint
    from trunkline.broker.models import Event

_GZIP_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Message:
    """Events as they are posted."""

    id: str
    body: bytes
    content_type: str


def compose(endpoint: Endpoint, source: str, events: Sequence[Delivered]) -> Message:
    """The message for these events; the same every time."""
    if endpoint.format == "cloudevents":
        document: Any = cloudevents.to_batch(events, source)
        content_type = cloudevents.BATCH
    else:
        document = {"items": [item(event) for event in events]}
        content_type = "application/json"
    return Message(message_id(endpoint, events), _json(document), content_type)


def item(event: Event) -> dict[str, Any]:
    """An event in a body of ours."""
    return {
        "id": event.event_id,
        "topic": event.topic,
        "key": event.key,
        "payload": event.payload,
        "metadata": event.metadata,
        "at": event.at.astimezone(UTC).isoformat(),
    }


def size(event: Event) -> int:
    """About how many bytes an event takes in a body."""
    return len(_json(item(event)))


def message_id(endpoint: Endpoint, events: Sequence[Delivered]) -> str:
    """What a receiver knows a repetition by."""
    told = f"{endpoint.identity}:{','.join(str(event.event_id) for event in events)}"
    return f"msg_{hashlib.sha256(told.encode()).hexdigest()[:32]}"


def request(
    endpoint: Endpoint, message: Message, now: datetime, *, gzip_bytes: int
) -> tuple[dict[str, str], bytes]:
    """Headers and content of a request; signed is the body as it is before it is compressed."""
    headers = {
        "user-agent": f"trunkline/{__version__}",
        "accept": "*/*",
        "accept-encoding": "identity",
        "content-type": message.content_type,
        "idempotency-key": message.id,
    }
    if secrets := endpoint.signing(now.timestamp()):
        text = message.body.decode()
        headers["webhook-id"] = message.id
        headers["webhook-timestamp"] = str(int(now.timestamp()))
        headers["webhook-signature"] = " ".join(
            Signer(secret).sign(message.id, now, text) for secret in secrets
        )
    content = message.body
    if len(content) >= gzip_bytes:
        headers["content-encoding"] = "gzip"
        content = gzip.compress(content, _GZIP_LEVEL, mtime=0)
    headers.update((name.lower(), value) for name, value in endpoint.headers.items())
    return headers, content


def _json(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
