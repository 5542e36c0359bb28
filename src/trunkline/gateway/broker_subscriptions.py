"""``/v1/broker/subscriptions``: who wants which events."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from trunkline.broker import models
from trunkline.broker import subscription_calls as calls
from trunkline.core.errors import NotFound
from trunkline.gateway.bodies import Body, Condition, Duration, Number, Params, Time
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.openapi import answer
from trunkline.gateway.rendering import Answer, page, row

router = APIRouter(prefix="/v1/broker", tags=["broker"])

Subscription = Annotated[int, Path(description="The number of the subscription.")]


class NewSubscription(Body):
    """Which events a group wants."""

    group: str
    condition: Condition = None
    params: Params = None
    from_position: Annotated[Number | None, Field(description="Begin with the history.")] = None
    from_time: Annotated[Time | None, Field(description="Begin with the history.")] = None
    expiry: Annotated[
        Duration | None, Field(description="It ends when no process has held it for that long.")
    ] = None
    handler: Annotated[str | None, Field(description="For this handler alone.")] = None
    ordering: Annotated[str | None, Field(description="strict or skip.")] = None
    lanes: Annotated[int | None, Field(ge=1, le=64)] = None
    replace: Annotated[bool, Field(description="Replace another subscription of the handler.")] = (
        False
    )


class Question(Body):
    """A condition to be tried."""

    condition: Condition = None
    params: Params = None
    max_events: Annotated[int, Field(ge=1, le=10_000)] = 1_000


class Resumption(Body):
    """How a subscription comes out of quarantine."""

    skip: Annotated[bool, Field(description="Without the event that failed.")] = True
    from_position: Number | None = None


@router.get(
    "/subscriptions",
    summary="Subscriptions",
    responses=answer({"subscriptions": [models.Subscription], "next": str | None}),
)
async def subscriptions(
    me: Me,
    group: Annotated[str | None, Query(description="None: of all groups.")] = None,
    after: Annotated[int, Query(description="Those after this one.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """With the error of those in quarantine, and the number to go on after."""
    found = await me.run(calls.subscriptions(group))
    shown, more = page(found, "subscription", after=after, limit=limit)
    return Answer({"subscriptions": shown, "next": more})


@router.post(
    "/subscriptions",
    summary="Subscribe a group",
    status_code=201,
    responses=answer({"subscription": str}, 201),
)
async def subscribe(me: Me, what: NewSubscription) -> Response:
    """The same group, condition and params are the same subscription; answers its number."""
    given = what.model_dump()
    number = await me.run(calls.subscribe(given.pop("group"), **given))
    return Answer({"subscription": str(number)}, 201)


@router.delete("/subscriptions/{subscription:int}", summary="End a subscription", status_code=204)
async def unsubscribe(me: Me, subscription: Subscription) -> Response:
    """What was found for it is still delivered."""
    if not await me.run(calls.unsubscribe(subscription)):
        raise NotFound(f"there is no subscription {subscription}.")
    return Response(status_code=204)


@router.post(
    "/subscriptions/{subscription:int}/resume",
    summary="End a quarantine",
    responses=answer({"from_position": str}),
)
async def resume(me: Me, subscription: Subscription, how: Resumption | None = None) -> Response:
    """Answers the position from which on it is matched."""
    given = (how or Resumption()).model_dump()
    position = await me.run(calls.resume(subscription, **given))
    return Answer({"from_position": str(position)})


@router.post("/explain", summary="What a condition would do", responses=answer(models.Explained))
async def explain(me: Me, what: Question) -> Response:
    """Index or scan, matches among the last events, time, error."""
    call = calls.explain(what.condition, what.params, max_events=what.max_events)
    return Answer(row(await me.run(call)))
