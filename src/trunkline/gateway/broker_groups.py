"""``/v1/broker/groups`` and ``/v1/broker/dead``: what waits for groups, and what failed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from trunkline.broker import calls, delivered, handler_calls, models
from trunkline.core.errors import Invalid
from trunkline.gateway.bodies import Body, Number, start
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.openapi import answer
from trunkline.gateway.rendering import Answer, page, row, rows

router = APIRouter(prefix="/v1/broker", tags=["broker"])

Group = Annotated[str, Path(description="The group.", examples=["billing"])]
Letter = Annotated[int, Path(description="The number of the dead letter.")]
SomeGroup = Annotated[str | None, Query(description="None: all.")]


class GroupSettings(Body):
    """How a group shares its work."""

    lanes: Annotated[int | None, Field(ge=1, le=64, description="None: as it is.")] = None


class Seek(Body):
    """Where a handler goes on: ``to``, or at the event with a position."""

    to: Annotated[str | None, Field(description="earliest, latest, a delivery or a time.")] = None
    position: Number | None = None
    handler: str = ""
    lane: Annotated[int | None, Field(description="None: all.")] = None


class Letters(Body):
    """All dead letters of a handler."""

    group: str
    handler: str


@router.get("/groups", summary="The groups", responses=answer([models.Group]))
async def groups(me: Me) -> Response:
    """Lanes, subscriptions, handlers, and what waits in them."""
    return Answer(rows(await me.run(calls.groups())))


@router.put("/groups/{group}", summary="Make a group", responses=answer(models.Group))
async def put_group(me: Me, group: Group, settings: GroupSettings | None = None) -> Response:
    """Or choose its lanes."""
    await me.run(calls.group(group, lanes=None if settings is None else settings.lanes))
    found = [each for each in await me.run(calls.groups()) if each.group_name == group]
    return Answer(row(found[0]) if found else None)


@router.delete("/groups/{group}", summary="Delete a group", status_code=204)
async def delete_group(me: Me, group: Group) -> Response:
    """With its subscriptions, handlers, positions and dead letters."""
    await me.run(calls.group_delete(group))
    return Response(status_code=204)


@router.delete("/groups/{group}/handlers/{handler}", summary="Delete a handler", status_code=204)
async def delete_handler(me: Me, group: Group, handler: str) -> Response:
    """One that nobody will run again, with its positions and dead letters."""
    await me.run(handler_calls.handler_delete(group, handler))
    return Response(status_code=204)


@router.get("/lag", summary="How far handlers are behind", responses=answer([models.HandlerLag]))
async def lag(me: Me, group: SomeGroup = None) -> Response:
    """Lane by lane: what waits, since when, what failed, who works on it."""
    return Answer(rows(await me.run(calls.lag(group))))


@router.get(
    "/groups/{group}/events",
    summary="Look at what waits",
    responses=answer({"events": [models.Waiting]}),
)
async def peek(
    me: Me,
    group: Group,
    handler: str = "",
    lane: Annotated[int | None, Query(description="None: all.")] = None,
    from_: Annotated[int | None, Query(alias="from", description="The first delivery.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """Events that wait for a handler; nothing is taken, and nobody registered."""
    call = calls.read(
        group, handler=handler, lane=lane, from_position=from_, max_events=limit, peek=True
    )
    return Answer({"events": rows(await me.run(replace(call, json_text=True)))})


@router.post(
    "/groups/{group}/seek",
    summary="Move a handler",
    responses=answer([{"lane": int, "up_to": str}]),
)
async def seek(me: Me, group: Group, where: Seek) -> Response:
    """Workers that run go on from there; answers the delivery it stands behind, by lane."""
    if (where.to is None) == (where.position is None):
        raise Invalid("say where to: to or position, one of them.")
    place: dict[str, Any] = {"at_position": where.position}
    if where.to is not None:
        place = _place(where.to)
    moved = await me.run(calls.seek(group, handler=where.handler, lane=where.lane, **place))
    return Answer([{"lane": lane, "up_to": str(up_to)} for lane, up_to in moved.items()])


def _place(text: str) -> dict[str, Any]:
    found = start(text, name="to", words=("earliest", "latest"))
    if found == "earliest":
        return {"up_to": 0}
    if found == "latest":
        return {"at_time": datetime.max.replace(tzinfo=UTC)}
    if isinstance(found, int):
        if found < 1:
            raise Invalid(f"to: deliveries begin at 1, got {found}.")
        return {"up_to": found - 1}
    return {"at_time": found}


@router.get(
    "/dead",
    summary="Dead letters",
    responses=answer({"letters": [delivered.DeadLetter], "next": str | None}),
)
async def dead(
    me: Me,
    group: SomeGroup = None,
    handler: SomeGroup = None,
    after: Annotated[int, Query(description="Those after this one.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """Events that handlers failed with for good, and the number to go on after."""
    found = await me.run(handler_calls.dead_list(group, handler=handler))
    letters, more = page(found, "retry", after=after, limit=limit)
    return Answer({"letters": letters, "next": more})


@router.get(
    "/dead/{letter:int}", summary="A dead letter", responses=answer(delivered.DeadLetterDetails)
)
async def show_dead(me: Me, letter: Letter) -> Response:
    """The event, and the error of every attempt."""
    return Answer(row(await me.run(handler_calls.dead_show(letter))))


@router.post(
    "/dead/{letter:int}/retry",
    summary="Try a dead letter once more",
    responses=answer({"letters": int}),
)
async def retry_one(me: Me, letter: Letter) -> Response:
    """Answers how many are tried."""
    return Answer({"letters": await me.run(handler_calls.dead_retry(letter))})


@router.delete(
    "/dead/{letter:int}", summary="Give a dead letter up", responses=answer({"letters": int})
)
async def discard_one(me: Me, letter: Letter) -> Response:
    """What waited behind it goes on; answers how many are given up."""
    return Answer({"letters": await me.run(handler_calls.dead_discard(letter))})


@router.post(
    "/dead/retry", summary="Try dead letters once more", responses=answer({"letters": int})
)
async def retry_all(me: Me, which: Letters) -> Response:
    """All of a handler; answers how many."""
    call = handler_calls.dead_retry(group_name=which.group, handler=which.handler)
    return Answer({"letters": await me.run(call)})


@router.post("/dead/discard", summary="Give dead letters up", responses=answer({"letters": int}))
async def discard_all(me: Me, which: Letters) -> Response:
    """All of a handler; answers how many."""
    call = handler_calls.dead_discard(group_name=which.group, handler=which.handler)
    return Answer({"letters": await me.run(call)})
