"""``/v1/tube``: which rows changed, on their way downstream."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from trunkline.gateway.bodies import Body, Duration
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.openapi import answer
from trunkline.gateway.rendering import Answer, rows
from trunkline.tube import backfill_calls, calls, models

router = APIRouter(prefix="/v1/tube", tags=["tube"])

Tube = Annotated[str, Path(description="The tube.", examples=["search"])]
_NAME = r'(?:[^".]+|"(?:[^"]|"")+")'
RELATION = rf"^{_NAME}(?:\.{_NAME})?$"
KeyOfARow = Annotated[
    str | int | list[str | int | float | bool | None],
    Field(description="Of several columns: a list.", examples=["17"]),
]


class Touch(Body):
    """Keys that are delivered as if their rows had changed."""

    relation: Annotated[str | None, Field(pattern=RELATION, examples=["app.products"])] = None
    keys: Annotated[list[KeyOfARow], Field(min_length=1, max_length=10_000)]
    payload: Annotated[Any, Field(description="Any JSON that goes along.")] = None
    op: Annotated[str, Field(description="I, U, D, T or B.")] = "T"
    shard: int | None = None


class NewBackfill(Body):
    """Which rows are emitted anew, and how fast."""

    relation: Annotated[
        str | None, Field(pattern=RELATION, description="None: all tables of the tube.")
    ] = None
    order_by: Annotated[str | None, Field(description="A column, if not the key.")] = None
    chunk: Annotated[int, Field(ge=1, description="Rows at once.")] = 10_000
    throttle: Annotated[Duration | None, Field(description="A pause after each chunk.")] = None


class Unpark(Body):
    """Which parked keys are tried again."""

    keys: Annotated[list[KeyOfARow] | None, Field(description="None: all.")] = None


@router.get("", summary="The tubes", responses=answer([models.Listed]))
async def list_tubes(
    me: Me,
    relation: Annotated[
        str | None, Query(pattern=RELATION, description="Only of this table.")
    ] = None,
) -> Response:
    """Each with its tables."""
    return Answer(rows(await me.run(calls.list_tubes(relation))))


@router.get("/{tube}/stats", summary="The lanes of a tube", responses=answer([models.LaneStats]))
async def stats(me: Me, tube: Tube) -> Response:
    """What waits, since when, who works on it."""
    return Answer(rows(await me.run(calls.stats(tube))))


@router.post("/{tube}/touch", summary="Touch keys", responses=answer({"keys": int}))
async def touch(me: Me, tube: Tube, what: Touch) -> Response:
    """They are delivered as if their rows had changed; answers how many."""
    call = calls.touch(
        tube, what.relation, what.keys, payload=what.payload, op=what.op, shard=what.shard
    )
    return Answer({"keys": await me.run(call)})


@router.get(
    "/{tube}/backfills", summary="The backfills of a tube", responses=answer([models.Backfill])
)
async def backfills(me: Me, tube: Tube) -> Response:
    """The newest first: how far they are and what they wait for."""
    return Answer(rows(await me.run(backfill_calls.status(tube))))


@router.post(
    "/{tube}/backfills",
    summary="Schedule a backfill",
    status_code=201,
    responses=answer({"backfills": [str]}, 201),
)
async def schedule(me: Me, tube: Tube, what: NewBackfill | None = None) -> Response:
    """Every row is emitted anew, in chunks, behind live changes; answers the backfills' numbers."""
    given = (what or NewBackfill()).model_dump()
    numbers = await me.run(backfill_calls.schedule(tube, **given))
    return Answer({"backfills": [str(number) for number in numbers]}, 201)


@router.delete(
    "/{tube}/backfills",
    summary="Cancel the backfills of a tube",
    responses=answer({"backfills": int}),
)
async def cancel(me: Me, tube: Tube) -> Response:
    """Those under way; answers how many."""
    return Answer({"backfills": await me.run(backfill_calls.cancel(tube))})


@router.post(
    "/{tube}/backfills/pause",
    summary="Pause the backfills of a tube",
    responses=answer({"backfills": int}),
)
async def pause(me: Me, tube: Tube) -> Response:
    """Those under way; answers how many."""
    return Answer({"backfills": await me.run(backfill_calls.pause(tube))})


@router.post(
    "/{tube}/backfills/resume",
    summary="Go on with the backfills of a tube",
    responses=answer({"backfills": int}),
)
async def resume(me: Me, tube: Tube) -> Response:
    """Those that are paused; answers how many."""
    return Answer({"backfills": await me.run(backfill_calls.pause(tube, pause=False))})


@router.get("/{tube}/parked", summary="Keys that were set aside", responses=answer([models.Parked]))
async def parked(me: Me, tube: Tube) -> Response:
    """With their error."""
    return Answer(rows(await me.run(calls.parked(tube))))


@router.post("/{tube}/unpark", summary="Try parked keys again", responses=answer({"keys": int}))
async def unpark(me: Me, tube: Tube, what: Unpark | None = None) -> Response:
    """Some, or all; answers how many."""
    keys = None if what is None else what.keys
    return Answer({"keys": await me.run(calls.unpark(tube, keys))})
