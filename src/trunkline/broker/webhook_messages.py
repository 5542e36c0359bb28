"""What is posted to a webhook: body, id, headers, signatures. Values in, values out.

The id is made of the endpoint's identity and the ids and times of the events: the same events have
the same id at every try, also after a restart, and no other set of events has it, also when a
standby that lagged behind gives ids again.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from standardwebhooks import Webhook as Signer

from trunkline.broker import cloudevents
from trunkline.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.broker.delivered import Delivered
    from trunkline.broker.endpoints import Endpoint

_GZIP_LEVEL = 6
_GZIP = 16  # added to the width of the window: wrap it as gzip
_BEYOND = 262  # bytes of the window that nothing is found in
_AROUND = 150  # bytes around the texts of an item
_WIDEST = 4  # bytes of a character
_LONGEST_ESCAPE = 6  # bytes
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class Message:
    """Events as they are posted."""

    id: str
    body: bytes
    content_type: str


def compose(endpoint: Endpoint, source: str, events: Sequence[Delivered]) -> Message:
    """The message for these events, whose payloads and metadata are texts; the same every time."""
    if endpoint.format == "cloudevents":
        body = f"[{','.join(cloudevents.as_text(event, source) for event in events)}]"
        content_type = cloudevents.BATCH
    else:
        body = f'{{"items":[{",".join(map(item, events))}]}}'
        content_type = "application/json"
    return Message(message_id(endpoint, events), body.encode(), content_type)


def item(event: Delivered) -> str:
    """An event in a body of ours; payload and metadata are as the server writes them."""
    return (
        f'{{"id":"{event.event_id}","topic":{_json(event.topic)}'
        f',"key":{"null" if event.key is None else _json(event.key)}'
        f',"payload":{event.payload},"metadata":{event.metadata or "null"}'
        f',"at":"{event.at.astimezone(UTC).isoformat()}"}}'
    )


def parts(events: Sequence[Delivered], most_bytes: int) -> list[list[Delivered]]:
    """Events in bodies of so many bytes at most; one that is larger goes alone."""
    if len(events) < 2 or sum(map(_at_most, events)) <= most_bytes:
        return [list(events)] if events else []
    found: list[list[Delivered]] = []
    room = 0
    for event in events:
        size = len(item(event).encode())
        if not found or size > room:
            found.append([])
            room = most_bytes
        found[-1].append(event)
        room -= size
    return found


def _at_most(event: Delivered) -> int:
    """Bytes that an event takes in a body, or fewer; told without making it."""
    texts = len(event.payload) + len(event.metadata or "")
    return _AROUND + _WIDEST * texts + _LONGEST_ESCAPE * (len(event.topic) + len(event.key or ""))


def message_id(endpoint: Endpoint, events: Sequence[Delivered]) -> str:
    """What a receiver knows a repetition by."""
    ids = (f"{event.event_id}@{event.at.astimezone(UTC).isoformat()}" for event in events)
    told = f"{endpoint.identity}:{','.join(ids)}"
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
        content = zipped(content)
    headers.update((name.lower(), value) for name, value in endpoint.headers.items())
    return headers, content


def zipped(content: bytes) -> bytes:
    """As gzip, the same every time.

    With a window as large as the content needs: the usual one is 32 kB, with tables to match, and
    to clear them takes several times as long as to compress a small body.
    """
    window = min(15, (len(content) + _BEYOND).bit_length())
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP + window, max(2, window - 7))
    return packer.compress(content) + packer.flush()
