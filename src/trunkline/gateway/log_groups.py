"""Groups of ``/v1/log``: where they stand, and what many readers of one work on."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from trunkline.gateway.bodies import Body, Duration, Number, start
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.claiming import Claiming, NewClaim
from trunkline.gateway.log import MESSAGE, Topic, message_row
from trunkline.gateway.openapi import Maybe, answer, without
from trunkline.gateway.rendering import Answer, row, rows
from trunkline.gateway.waiting import found_within
from trunkline.log import group_calls, models

router = APIRouter(prefix="/v1/log", tags=["log"])

Group = Annotated[str, Path(description="The group.", examples=["billing"])]


class Held(Body):
    """A claim that one has."""

    partition: int
    claim: Number


class Release(Held):
    """A claim that is given back."""

    retry_after: Annotated[Duration, Field(description="Not before.")] = timedelta(0)
    reason: Annotated[str | None, Field(description="Goes along, at last to the dead letter.")] = (
        None
    )


class Extend(Held):
    """A claim that takes longer."""

    deadline: Annotated[Duration, Field(description="From now.")]


class Progress(Body):
    """How far a reader is who shares a group with nobody."""

    partition: int = 0
    up_to: Annotated[Number, Field(description="The last offset that is done.")]


class Seek(Body):
    """Where a group goes on."""

    to: Annotated[str, Field(description="earliest, hot, latest, an offset or a time.")]
    partition: Annotated[int | None, Field(description="None: all.")] = None


_CLAIMED = {
    **{name: Maybe(shape) for name, shape in without(models.Claim, "claim").items()},
    "partition": Maybe(int),
    "claim": str | None,
    "messages": [MESSAGE],
}


@router.get("/{topic}/groups", summary="The groups of a topic", responses=answer([models.Position]))
async def groups(me: Me, topic: Topic, group: str | None = None) -> Response:
    """By partition: what is done, what is there, how far behind, who owns it."""
    return Answer(rows(await me.run(group_calls.groups(topic, group))))


@router.get("/{topic}/lag", summary="How far groups are behind", responses=answer([models.Lag]))
async def lag(me: Me, topic: Topic, group: str | None = None) -> Response:
    """In messages."""
    return Answer(rows(await me.run(group_calls.lag(topic, group))))


@router.delete("/{topic}/groups/{group}", summary="Delete a group", status_code=204)
async def delete_group(me: Me, topic: Topic, group: Group) -> Response:
    """With its positions."""
    await me.run(group_calls.group_delete(topic, group))
    return Response(status_code=204)


@router.post(
    "/{topic}/groups/{group}/seek",
    summary="Move a group",
    responses=answer([{"partition": int, "next": str}]),
)
async def seek(me: Me, topic: Topic, group: Group, where: Seek) -> Response:
    """Answers the offset with which it goes on, by partition."""
    call = group_calls.seek(topic, group, start(where.to, name="to"), partition=where.partition)
    moved = await me.run(call)
    return Answer([{"partition": to, "next": str(offset)} for to, offset in moved.items()])


@router.post("/{topic}/groups/{group}/claim", summary="Claim messages", responses=answer(_CLAIMED))
async def claim(
    me: Me, topic: Topic, group: Group, request: Request, what: NewClaim | None = None
) -> Response:
    """The next messages of a partition, for one of many readers of a shared group.

    Nobody else gets them until the deadline: acknowledge them before it, or they come back. What
    failed too often goes to the topic's dead letters. Nothing there: the claim is null.
    """
    asked = what or NewClaim()
    claiming = Claiming(me.crowd if asked.wait else me.db, topic, group, asked)
    found = await found_within(asked.wait, me, request, f"log:{topic}:", claiming.next)
    if found is None:
        return Answer({"claim": None, "messages": []})
    messages = [message_row(message) for message in found.messages]
    return Answer({"partition": found.partition, **row(found.claim), "messages": messages})


@router.post("/{topic}/groups/{group}/ack", summary="A claim is done", status_code=204)
async def ack(me: Me, topic: Topic, group: Group, held: Held) -> Response:
    """423 when it is not in flight any more: it was acknowledged, or came back."""
    await me.run(group_calls.ack(topic, group, held.partition, held.claim))
    return Response(status_code=204)


@router.post("/{topic}/groups/{group}/release", summary="Give a claim back", status_code=204)
async def release(me: Me, topic: Topic, group: Group, held: Release) -> Response:
    """Not done: it is handed out again. 423 when it is not in flight any more."""
    call = group_calls.release(
        topic,
        group,
        held.partition,
        held.claim,
        retry_after=held.retry_after,
        reason=held.reason,
    )
    await me.run(call)
    return Response(status_code=204)


@router.post(
    "/{topic}/groups/{group}/extend",
    summary="More time for a claim",
    responses=answer({"expires": datetime}),
)
async def extend(me: Me, topic: Topic, group: Group, held: Extend) -> Response:
    """Answers when it comes back by then. 423 when it is not in flight any more."""
    call = group_calls.extend(topic, group, held.partition, held.claim, held.deadline)
    return Answer({"expires": await me.run(call)})


@router.post(
    "/{topic}/groups/{group}/progress", summary="Note how far a reader is", status_code=204
)
async def progress(me: Me, topic: Topic, group: Group, place: Progress) -> Response:
    """For one who reads alone, by offsets; forward only. 409 where others share the work."""
    await me.run(group_calls.progress(topic, group, [place.partition], [place.up_to]))
    return Response(status_code=204)
