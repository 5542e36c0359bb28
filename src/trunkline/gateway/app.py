"""The application: routes, errors, and what says how it stands."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI, Request
from starlette.middleware.cors import CORSMiddleware

from trunkline.core.errors import TrunklineError, Unavailable
from trunkline.gateway import graphql, live, metrics, openapi, problems, reference, rest
from trunkline.gateway.connections import Concurrency
from trunkline.gateway.openapi import answer
from trunkline.gateway.reception import Bodies, Heads, Neighbours
from trunkline.version import __version__

if TYPE_CHECKING:
    from trunkline.gateway.gateway import Gateway

_ANSWER_WITHIN = 3.0  # seconds for the database when somebody asks whether all is well

router = APIRouter(tags=["state"])


def make_app(gateway: Gateway) -> FastAPI:
    """The application over a gateway."""
    app = FastAPI(
        title="Trunkline",
        version=__version__,
        description="Events, topics, tubes, keys and live tables of one Postgres.",
        docs_url=None,
        redoc_url=None,
    )
    app.state.gateway = gateway
    rest.add_to(app, gateway)
    app.add_middleware(Bodies, gateway=gateway)
    app.add_middleware(Heads)
    if gateway.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(gateway.cors),
            allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "If-Match",
                "If-None-Match",
                "Last-Event-ID",
            ],
            expose_headers=["ETag", "Trunkline-Expires-At"],
        )
    if gateway.insecure:
        app.add_middleware(Neighbours, gateway=gateway)
    app.add_middleware(Concurrency, connections=gateway.connections)
    problems.add_to(app)
    app.openapi = partial(openapi.document, app, gateway)  # type: ignore[method-assign]
    for part in (router, metrics.router, live.router, graphql.router, reference.router):
        app.include_router(part)
    return app


@router.get("/healthz", summary="Whether it can serve", responses=answer({"status": str}))
async def healthz(request: Request) -> dict[str, str]:
    """200 while the database answers."""
    gateway: Gateway = request.app.state.gateway
    try:
        async with asyncio.timeout(_ANSWER_WITHIN):
            await gateway.platform.broker.head()
    except TimeoutError:
        raise Unavailable("the database does not answer.") from None
    except TrunklineError as error:
        raise Unavailable(f"the database does not serve: {error.message}") from None
    return {"status": "ok"}
