"""``/v1/log/{topic}/dead``: messages that readers of shared groups failed with for good."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from trunkline.gateway.bodies import Body
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.log import Topic  # noqa: TC001 - read by FastAPI
from trunkline.gateway.openapi import answer
from trunkline.gateway.rendering import Answer, page, row
from trunkline.log import dead_calls, models

router = APIRouter(prefix="/v1/log/{topic}/dead", tags=["log"])

Letter = Annotated[int, Path(description="The number of the dead letter.")]


class Letters(Body):
    """All dead letters of a group."""

    group: str


@router.get(
    "",
    summary="Dead letters of a topic",
    responses=answer({"letters": [models.DeadMessage], "next": str | None}),
)
async def dead(
    me: Me,
    topic: Topic,
    group: Annotated[str | None, Query(description="None: all.")] = None,
    after: Annotated[int, Query(description="Those after this one.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
) -> Response:
    """Messages that failed for good and are not settled, and the number to go on after."""
    found = await me.run(dead_calls.dead_list(topic, group=group))
    letters, more = page(found, "letter", after=after, limit=limit)
    return Answer({"letters": letters, "next": more})


@router.get(
    "/{letter:int}", summary="A dead letter of a topic", responses=answer(models.DeadMessageDetails)
)
async def show(me: Me, topic: Topic, letter: Letter) -> Response:
    """The message, and what is told about it."""
    return Answer(row(await me.run(dead_calls.dead_show(topic, letter))))


@router.post(
    "/{letter:int}/retry",
    summary="Append a dead letter to its topic again",
    responses=answer({"letters": int}),
)
async def retry_one(me: Me, topic: Topic, letter: Letter) -> Response:
    """Answers how many are appended."""
    return Answer({"letters": await me.run(dead_calls.dead_retry(topic, letter))})


@router.delete(
    "/{letter:int}", summary="Give a dead letter of a topic up", responses=answer({"letters": int})
)
async def discard_one(me: Me, topic: Topic, letter: Letter) -> Response:
    """Answers how many are given up."""
    return Answer({"letters": await me.run(dead_calls.dead_discard(topic, letter))})


@router.post(
    "/retry", summary="Append dead letters to their topic again", responses=answer({"letters": int})
)
async def retry_all(me: Me, topic: Topic, which: Letters) -> Response:
    """All of a group; answers how many."""
    return Answer({"letters": await me.run(dead_calls.dead_retry(topic, group=which.group))})


@router.post(
    "/discard", summary="Give dead letters of a topic up", responses=answer({"letters": int})
)
async def discard_all(me: Me, topic: Topic, which: Letters) -> Response:
    """All of a group; answers how many."""
    return Answer({"letters": await me.run(dead_calls.dead_discard(topic, group=which.group))})
