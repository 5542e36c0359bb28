"""``/v1/log``: topics and their messages."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import Field

from trunkline.gateway import sse
from trunkline.gateway.appending import EXPECTED, append
from trunkline.gateway.bodies import Body, Duration, Number, start
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.gateway import HEARTBEAT
from trunkline.gateway.log_stream import LogItem, LogStream
from trunkline.gateway.openapi import answer, streamed, without
from trunkline.gateway.rendering import Answer, content, row, rows
from trunkline.log import calls, models
from trunkline.log.decoding import decode

if TYPE_CHECKING:
    from trunkline.log.models import Message

router = APIRouter(prefix="/v1/log", tags=["log"])

Topic = Annotated[str, Path(description="The topic.", examples=["orders"])]

_FETCH_BYTES = 1 << 20

_TOPIC = without(models.Topic, "topic_id")
_DESCRIBED = {**_TOPIC, "partitions": [models.Partition]}
MESSAGE = {
    "partition": int,
    "offset": str,
    "at": datetime,
    "key": bytes | None,
    "value": bytes | None,
    "headers": dict[str, Any] | None,
}
"""The members of a message in an answer."""


class NewTopic(Body):
    """Settings of a topic that is made; what is left out has its default."""

    partitions: Annotated[int, Field(ge=1, description="Chosen by key.")] = 1
    retention: Annotated[Duration | None, Field(description="None: for ever.")] = None
    retention_bytes: Number | None = None
    compact: Annotated[bool, Field(description="Of each key only the last value stays.")] = False
    codec: Annotated[str, Field(description="none or zstd.")] = "none"
    early_release: bool = False
    archive: bool = False


class Alteration(Body):
    """Settings that change; what is left out stays."""

    partitions: Annotated[int | None, Field(ge=1)] = None
    retention: Annotated[
        Duration | Literal["forever"] | None, Field(description='"forever" keeps all.')
    ] = None
    retention_bytes: Annotated[Number | None, Field(description="0 keeps all.")] = None
    codec: str | None = None
    early_release: bool | None = None
    archive: bool | None = None


class Trim(Body):
    """What is forgotten."""

    partition: int
    before_offset: Number


@router.get("", summary="The topics", responses=answer([models.TopicSize]))
async def list_topics(me: Me) -> Response:
    """All topics with their settings and sizes."""
    return Answer(rows(await me.run(calls.list_topics())))


@router.put("/{topic}", summary="Create a topic", responses=answer(_TOPIC))
async def create(me: Me, topic: Topic, settings: NewTopic | None = None) -> Response:
    """Harmless when it is there with the same settings; 409 with others."""
    given = (settings or NewTopic()).model_dump()
    return Answer(row(await me.change(topic, calls.create(topic, **given)), without=("topic_id",)))


@router.patch("/{topic}", summary="Change settings of a topic", responses=answer(_TOPIC))
async def alter(me: Me, topic: Topic, settings: Alteration) -> Response:
    """What is left out stays as it is."""
    given = settings.model_dump()
    if given["retention"] == "forever":
        given["retention"] = "infinity"
    return Answer(row(await me.change(topic, calls.alter(topic, **given)), without=("topic_id",)))


@router.delete("/{topic}", summary="Delete a topic", status_code=204)
async def delete(me: Me, topic: Topic) -> Response:
    """With its messages and groups."""
    await me.change(topic, calls.delete(topic))
    return Response(status_code=204)


@router.get("/{topic}", summary="A topic and its partitions", responses=answer(_DESCRIBED))
async def describe(me: Me, topic: Topic) -> Response:
    """Settings, and by partition the offsets, segments, bytes and what is archived."""
    settings = row(await me.run(calls.settings(topic)), without=("topic_id", "partitions"))
    partitions = rows(await me.run(calls.describe(topic)))
    return Answer({**settings, "partitions": partitions})


@router.post(
    "/{topic}",
    summary="Append messages",
    status_code=201,
    openapi_extra=EXPECTED,
    responses=answer({"appended": [without(models.Appended, "topic")]}, 201),
)
async def append_messages(
    me: Me,
    topic: Topic,
    request: Request,
    key: Annotated[str | None, Query(description="Of all messages of a body not JSON.")] = None,
    partition: Annotated[int | None, Query(description="As key. None: by key.")] = None,
) -> Response:
    """Waits until they are durable; answers the offsets in each partition."""
    appended = await append(me, topic, request, key=key, partition=partition)
    return Answer({"appended": rows(appended, without=("topic",))}, 201)


@router.get(
    "/{topic}/messages",
    summary="Read messages",
    responses=answer({"messages": [MESSAGE], "next": str}),
)
async def read(
    me: Me,
    topic: Topic,
    partition: Annotated[int, Query(ge=0)] = 0,
    from_: Annotated[
        str, Query(alias="from", description="earliest, hot, latest, an offset or a time.")
    ] = "earliest",
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """Messages of a partition in order, and where to go on; none: nothing more is there yet.

    410 where they have left or are archived.
    """
    place = start(from_)
    first = place if isinstance(place, int) else await me.run(calls.place(topic, partition, place))
    fetch = calls.fetch(topic, partition, first, max_messages=limit, max_bytes=_FETCH_BYTES)
    messages: list[Message] = []
    after = first
    for batch in await me.run(fetch):
        part = decode(batch)
        messages += part.messages(topic, partition)
        whole = part.skip + part.take == part.n
        after = 1 + (part.last_offset if whole else part.offsets[-1])
    return Answer({"messages": [message_row(message) for message in messages], "next": str(after)})


@router.get("/{topic}/stream", summary="Follow a topic", responses=streamed())
async def stream(
    me: Me,
    topic: Topic,
    partition: Annotated[int | None, Query(ge=0, description="None: all.")] = None,
    from_: Annotated[
        str, Query(alias="from", description="earliest, hot, latest, an offset or a time.")
    ] = "latest",
    after: Annotated[str | None, Query(description="Go on after the message with this id.")] = None,
    last_event_id: Annotated[str | None, Header(description="As after; it wins.")] = None,
) -> Response:
    """Server-sent events, each a message; each partition in order.

    `reset` says that messages have left before they were read; it goes on with the first there is.
    """
    found = LogStream(
        me.crowd,
        me.listener,
        topic,
        partition=partition,
        start=start(from_),
        after=last_event_id or after,
        heartbeat=HEARTBEAT,
    )
    return await me.follow(found, _frame)


@router.post(
    "/{topic}/trim",
    summary="Forget messages",
    responses=answer({"partition": int, "first_offset": str}),
)
async def trim(me: Me, topic: Topic, what: Trim) -> Response:
    """Everything before an offset; answers the first offset there is."""
    first = await me.run(calls.trim(topic, what.partition, what.before_offset))
    return Answer({"partition": what.partition, "first_offset": str(first)})


def message_row(message: Message) -> dict[str, Any]:
    """A message as it is answered."""
    return {
        "partition": message.partition,
        "offset": str(message.offset),
        "at": message.at,
        "key": content(message.key),
        "value": content(message.value),
        "headers": message.headers,
    }


def _frame(item: LogItem) -> str:
    return sse.frame(message_row(item.message), token=item.token)
