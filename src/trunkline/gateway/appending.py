"""Messages on their way in: as JSON with keys and headers, as lines, or as one message's bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID  # noqa: TC003 - read by pydantic

from pydantic import Field, TypeAdapter

from trunkline.core.errors import Invalid, TooLarge
from trunkline.gateway.bodies import (
    Body,
    Content,
    Number,
    expected,
    json_schema,
    parse,
)
from trunkline.gateway.problems import UnsupportedBody
from trunkline.log import calls
from trunkline.log.batches import Codec, pack, partition_of, route
from trunkline.log.models import Appended, Outgoing

if TYPE_CHECKING:
    from starlette.requests import Request

    from trunkline.gateway.callers import Caller

_MOST = 10_000


class NewMessage(Body):
    """A message; a value that is no text comes as ``{"base64": ...}``."""

    value: Content
    key: Content = None
    headers: dict[str, Any] | None = None


class NewMessages(Body):
    """Messages to append, in order.

    With ``producer_id`` and a ``producer_seq`` that rises, a repeat changes nothing and is answered
    as the first time.
    """

    messages: Annotated[list[NewMessage], Field(min_length=1, max_length=_MOST)]
    partition: Annotated[int | None, Field(description="None: by key.")] = None
    producer_id: Annotated[UUID | None, Field(strict=False)] = None
    producer_seq: Number | None = None


_NEW_MESSAGES = TypeAdapter(NewMessages)

EXPECTED = expected(
    {
        "application/json": {
            "schema": json_schema(NewMessages),
            "example": {"messages": [{"key": "alice", "value": "paid 10"}]},
        },
        "application/x-ndjson": {"schema": {"type": "string"}, "example": '{"a": 1}\n{"a": 2}\n'},
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
    }
)


async def append(
    me: Caller, topic: str, request: Request, *, key: str | None, partition: int | None
) -> list[Appended]:
    """Append what a request brings."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    raw = await request.body()
    if kind == "application/json":
        if key is not None or partition is not None:
            raise Invalid("key and partition of JSON are in the body, not in the query.")
        return await _append_json(me, topic, parse(_NEW_MESSAGES, raw))
    if kind == "application/octet-stream":
        values = [raw]
    elif kind == "application/x-ndjson":
        values = raw.removesuffix(b"\n").split(b"\n")
    else:
        raise UnsupportedBody(
            f'messages do not come as "{kind[:80]}".',
            hint="Expected application/json, application/x-ndjson or application/octet-stream.",
        )
    if len(values) > _MOST:
        raise TooLarge(f"at most {_MOST} messages are appended at once, got {len(values)}.")
    keys = None if key is None else [key.encode()] * len(values)
    return await me.producer.append(topic, values, keys=keys, partition=partition)


async def _append_json(me: Caller, topic: str, given: NewMessages) -> list[Appended]:
    if (given.producer_id is None) != (given.producer_seq is None):
        raise Invalid("producer_id and producer_seq go together.")
    if given.producer_id is not None:
        return await _append_once(me, topic, given)
    messages = [Outgoing(each.value, each.key, each.headers) for each in given.messages]
    return await me.producer.append(topic, messages, partition=given.partition)


async def _append_once(me: Caller, topic: str, given: NewMessages) -> list[Appended]:
    """Append in one transaction, with the numbers of somebody else's producer.

    A repeat must find the same partitions: what has no key goes where the producer's id says.
    """
    assert given.producer_id is not None
    settings = await me.run(calls.settings(topic))
    if given.partition is not None:
        shares = {given.partition: given.messages}
    else:
        keyless = partition_of(given.producer_id.bytes, settings.partitions)
        routes = route([each.key for each in given.messages], settings.partitions, keyless=keyless)
        shares = {
            to: [given.messages[place] for place in places]
            for to, places in enumerate(routes)
            if places
        }
    appended = []
    async with me.db.transaction() as connection:
        for to, messages in shares.items():  # in the order of partitions: nobody waits in a circle
            batch = pack(
                [each.value for each in messages],
                keys=[each.key for each in messages],
                headers=[each.headers for each in messages],
                codec=Codec.parse(settings.codec),
            )
            call = calls.append_batch(
                topic,
                to,
                batch,
                producer_id=given.producer_id,
                producer_seq=given.producer_seq,
            )
            first, last = await me.db.run(call, on=connection)
            appended.append(Appended(topic, to, first, last))
    me.notify(*(f"log:{topic}:{to}" for to in shares))
    return appended
