"""``/v1/broker``: events, published and followed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response

from trunkline.broker import calls, models
from trunkline.broker.cloudevents import SINGLE, as_text
from trunkline.broker.handlers import condition_text
from trunkline.broker.stream import EventStream
from trunkline.core.calls import as_json
from trunkline.core.errors import Invalid
from trunkline.core.unread import JsonText
from trunkline.gateway import sse
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.gateway import HEARTBEAT
from trunkline.gateway.openapi import answer, streamed
from trunkline.gateway.publishing import EXPECTED, new_events
from trunkline.gateway.reading import read_json
from trunkline.gateway.rendering import Answer, row, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from trunkline.broker.stream import StreamEvent

router = APIRouter(prefix="/v1/broker", tags=["broker"])


@router.post(
    "/events",
    summary="Publish events",
    status_code=201,
    openapi_extra=EXPECTED,
    responses=answer({"event_ids": [str]}, 201),
)
async def publish(me: Me, request: Request) -> Response:
    """One or many, all or none, in order; answers their ids.

    As JSON of ours, or as CloudEvents: one, a batch, or binary with `ce-` headers.
    """
    events = new_events(request.headers, await request.body())
    ids = await me.run(calls.publish_many(events))
    return Answer({"event_ids": [str(number) for number in ids]}, 201)


@router.get(
    "/events",
    summary="Read events by position",
    responses=answer({"events": [models.Event], "next": str}),
)
async def read(
    me: Me,
    from_: Annotated[int, Query(alias="from", ge=1, description="The first position.")] = 1,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    topic: Annotated[list[str] | None, Query(description="Only of these; may be repeated.")] = None,
) -> Response:
    """All events from a position on; 410 where they have left."""
    call = calls.events(from_, max_events=limit, topics=topic)
    found = await me.run(replace(call, json_text=True))
    after = found[-1].position + 1 if found else from_
    return Answer({"events": rows(found), "next": str(after)})


@router.get(
    "/events/{event_id}/why",
    summary="What became of an event",
    responses=answer({"hops": [models.Hop]}),
)
async def why(
    me: Me, event_id: Annotated[str, Path(description="A number, or what event_id_text() makes.")]
) -> Response:
    """Hop by hop: published, numbered, matched, handled, posted, forwarded."""
    return Answer({"hops": rows(await me.run(calls.why(event_id)))})


@router.get(
    "/ends",
    summary="Where reading may begin, and where it ends",
    responses=answer({"first": str, "last": str}),
)
async def ends(me: Me) -> Response:
    """Positions of events."""
    found = await me.run(calls.ends())
    return Answer({"first": str(found.first_one), "last": str(found.last_one)})


@router.get("/stream", summary="Follow events", responses=streamed())
async def stream(
    me: Me,
    request: Request,
    pattern: Annotated[
        list[str] | None, Query(description="Topics: orders.made, orders.*, #. None: all.")
    ] = None,
    condition: Annotated[str | None, Query(description="SQL over e and s, or JSON.")] = None,
    params: Annotated[str, Query(description="JSON: what the condition reads as s.params.")] = "{}",
    after: Annotated[str | None, Query(description="Go on after the event with this id.")] = None,
    form: Annotated[str | None, Query(alias="format", description="cloudevents, or none.")] = None,
    last_event_id: Annotated[str | None, Header(description="As after; it wins.")] = None,
) -> Response:
    """Server-sent events, from now on or after an id; nothing is kept for whoever looks.

    `reset` says that the history after the id is gone: what follows begins now.
    """
    given = read_json(params, "params")
    if not isinstance(given, dict):
        raise Invalid("params is a JSON object.")
    if form not in (None, "cloudevents"):
        raise Invalid(f'format is cloudevents or nothing, got "{form[:80]}".')
    as_cloudevents = form is not None or SINGLE in request.headers.get("accept", "")
    text = condition_text("the stream", pattern, condition)
    found = EventStream(
        me.crowd,
        me.listener,
        condition=text,
        params=given,
        after=last_event_id or after,
        heartbeat=HEARTBEAT,
        json_text=True,
    )
    await me.run(calls.scan(text, as_json(given, of="params")))  # may one ask that at all?
    source = None
    if as_cloudevents:
        source = await me.run(calls.source())
    return await me.follow(found, _telling(source))


def _telling(source: str | None) -> Callable[[StreamEvent], str]:
    if source is None:
        return lambda event: sse.frame(row(event, without=("token",)), token=event.token)

    return lambda event: sse.frame(JsonText(as_text(event, source)), token=event.token)
