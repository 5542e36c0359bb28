"""Handlers of ``/v1/broker/groups`` that run elsewhere: they read, and say what became of it.

Whoever has joined names the epoch of a lane in each request, and nobody else has that lane. Whoever
has not is let in where nobody has it, for the length of the request.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID, uuid4

from fastapi import APIRouter, Request, Response
from pydantic import Field

from trunkline.broker import calls, handler_calls, models
from trunkline.broker.delivered import HandlerLane
from trunkline.core import lease
from trunkline.core.errors import Conflict
from trunkline.gateway.bodies import Body, Duration, Number
from trunkline.gateway.broker_groups import Group  # noqa: TC001 - read by FastAPI
from trunkline.gateway.callers import Caller, Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.openapi import answer, without
from trunkline.gateway.rendering import Answer, rows
from trunkline.gateway.waiting import Wait, found_within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trunkline.broker.delivered import Delivered
    from trunkline.core.eager import EagerConnection

router = APIRouter(prefix="/v1/broker/groups", tags=["broker"])

_Deliveries = Annotated[
    list[Number], Field(min_length=1, max_length=1_000, description="Their up_to.")
]
_RetryAfter = Annotated[Duration | None, Field(description="None: never, it is a dead letter.")]


class Join(Body):
    """Who takes part in the work of a handler."""

    handler: str = ""
    process: Annotated[
        UUID | None, Field(strict=False, description="As answered the first time; none: a new one.")
    ] = None
    name: Annotated[str | None, Field(description="What listings call it.")] = None


class Leave(Body):
    """Who goes, or gives lanes back."""

    process: Annotated[UUID, Field(strict=False)]
    handler: str = ""
    lanes: Annotated[list[int] | None, Field(description="None: all, and leaves.")] = None


class Read(Body):
    """Which events are read."""

    handler: str = ""
    lane: Annotated[int | None, Field(description="None: all.")] = None
    from_delivery: Annotated[Number | None, Field(description="None: after what is done.")] = None
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100
    wait: Wait = timedelta(0)


class Place(Body):
    """A lane of a handler."""

    lane: int
    handler: str = ""
    epoch: Annotated[
        Number | None, Field(description="Of one who has joined; none: nobody may have the lane.")
    ] = None


class Commit(Place):
    """What is done."""

    up_to: Annotated[Number, Field(description="The last delivery that is done.")]


class Fail(Place):
    """What a handler failed with."""

    deliveries: _Deliveries
    error: str
    retry_after: _RetryAfter = None


class Park(Place):
    """What must wait for an older event of its key."""

    deliveries: _Deliveries


class Retries(Place):
    """Which batches are tried again."""

    limit: Annotated[int, Field(ge=1, le=100)] = 1


class Retried(Place):
    """What became of another try."""

    batch: Number
    error: Annotated[str | None, Field(description="None: it is done.")] = None
    retry_after: _RetryAfter = None


_JOINED = {
    "process": UUID,
    "expires": datetime,
    "lanes": [without(HandlerLane, "lanes", "suspect")],
}
_RETRY = {**without(models.Waiting, "blocked"), "errors": list[dict[str, Any]]}
_RETRIES = {"batches": [{"batch": str, "attempts": int, "events": [_RETRY]}]}


@router.post(
    "/{group}/join", summary="Take part in the work of a handler", responses=answer(_JOINED)
)
async def join(me: Me, group: Group, who: Join | None = None) -> Response:
    """The lanes that are yours by now, each with its epoch; nobody else has them until the process
    expires. Join again well before that, with the same process; give surplus lanes back.
    """
    asked = who or Join()
    process = asked.process or uuid4()
    async with me.db.transaction() as on:
        renewed = lease.renew(process, asked.name or lease.default_name())
        expires = await me.db.run(renewed, on=on)
        shares = await me.db.run(handler_calls.join(group, asked.handler, process), on=on)
    lanes = rows(shares, without=("lanes", "suspect"))
    return Answer({"process": process, "expires": expires, "lanes": lanes})


@router.post("/{group}/leave", summary="Give lanes back", status_code=204)
async def leave(me: Me, group: Group, who: Leave) -> Response:
    """Others have them at once."""
    await me.run(handler_calls.leave(group, who.handler, who.process, lanes=who.lanes))
    return Response(status_code=204)


@router.post(
    "/{group}/read", summary="Read what waits", responses=answer({"events": [models.Waiting]})
)
async def read(me: Me, group: Group, request: Request, what: Read | None = None) -> Response:
    """As looking; the first time also registers the handler, so that nothing leaves before it
    was read. Say what became of them with commit, fail or park: until then the same events come
    again.
    """
    asked = what or Read()
    call = calls.read(
        group,
        handler=asked.handler,
        lane=asked.lane,
        from_position=asked.from_delivery,
        max_events=asked.limit,
    )
    db, look = me.crowd if asked.wait else me.db, replace(call, json_text=True)
    found = await found_within(asked.wait, me, request, "broker:group:", lambda: db.run(look))
    return Answer({"events": rows(found)})


@router.post("/{group}/commit", summary="Say what is done", status_code=204)
async def commit(me: Me, group: Group, what: Commit) -> Response:
    """Everything of a lane up to a delivery; 409 while a worker has the lane, 423 with its epoch
    over.
    """
    async with _owning(me, group, what) as (place, on):
        await me.db.run(handler_calls.commit(*place, what.up_to), on=on)
    return Response(status_code=204)


@router.post("/{group}/fail", summary="Say what failed", responses=answer({"batch": str | None}))
async def fail(me: Me, group: Group, what: Fail) -> Response:
    """Sets events aside with the error, for another try or as dead letters, and commits the lane up
    to the last of them: what comes before is done. Answers the batch that is tried again.
    """
    async with _owning(me, group, what) as (place, on):
        failed = handler_calls.fail(
            *place, what.deliveries, what.error, retry_after=what.retry_after
        )
        batch = await me.db.run(failed, on=on)
        await me.db.run(handler_calls.commit(*place, max(what.deliveries)), on=on)
    return Answer({"batch": None if batch is None else str(batch)})


@router.post(
    "/{group}/park", summary="Let events wait for older ones", responses=answer({"parked": int})
)
async def park(me: Me, group: Group, what: Park) -> Response:
    """Sets events aside that are `blocked`, until older ones of their keys are settled, and commits
    the lane up to the last of them: what comes before is done. Answers how many.
    """
    async with _owning(me, group, what) as (place, on):
        parked = await me.db.run(handler_calls.park(*place, what.deliveries), on=on)
        await me.db.run(handler_calls.commit(*place, max(what.deliveries)), on=on)
    return Answer({"parked": parked})


@router.post(
    "/{group}/retries", summary="Read what is to be tried again", responses=answer(_RETRIES)
)
async def retries(me: Me, group: Group, what: Retries) -> Response:
    """Batches of a lane that are due, the longest due first; nothing is taken. Say what became of
    each with retried.
    """
    async with _owning(me, group, what) as (place, on):
        due = handler_calls.retries(*place, max_batches=what.limit, json_text=True)
        found = await me.db.run(due, on=on)
    batches = [
        {
            "batch": str(each.batch),
            "attempts": each.attempts,
            "events": [_told(event, what.lane) for event in each.events],
        }
        for each in found
    ]
    return Answer({"batches": batches})


@router.post("/{group}/retried", summary="Say what became of another try", status_code=204)
async def retried(me: Me, group: Group, what: Retried) -> Response:
    """Without an error the batch is done; with one it is tried again, or made dead letters."""
    async with _owning(me, group, what) as (place, on):
        call = handler_calls.retried(
            *place, what.batch, error=what.error, retry_after=what.retry_after
        )
        await me.db.run(call, on=on)
    return Response(status_code=204)


@asynccontextmanager
async def _owning(
    me: Caller, group: str, what: Place
) -> AsyncIterator[tuple[tuple[str, str, int, int], EagerConnection]]:
    """A transaction in which a lane is somebody's: his who names its epoch, or else ours."""
    async with me.db.transaction() as on:
        if what.epoch is not None:
            yield (group, what.handler, what.lane, what.epoch), on
            return
        process = uuid4()
        await me.db.run(lease.renew(process, lease.default_name()), on=on)
        shares = await me.db.run(handler_calls.join(group, what.handler, process), on=on)
        ours = {share.lane: share.epoch for share in shares}
        if what.lane not in ours:
            raise Conflict(
                f'lane {what.lane} of group "{group}" is in the hands of a worker, or not there.',
                hint="GET /v1/broker/lag tells.",
            )
        yield (group, what.handler, what.lane, ours[what.lane]), on
        await me.db.run(lease.end(process), on=on)


def _told(event: Delivered, lane: int) -> dict[str, Any]:
    """An event that is tried again, by the names that it had when it was read."""
    return {
        "lane": lane,
        "up_to": str(event.delivery),
        "event_position": str(event.position),
        "event_id": str(event.event_id),
        "topic": event.topic,
        "key": event.key,
        "payload": event.payload,
        "metadata": event.metadata,
        "at": event.at,
        "subscriptions": [str(each) for each in event.subscriptions],
        "errors": event.errors,
    }
