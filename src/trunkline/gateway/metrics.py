"""``/metrics``: the counters of this process, and for whoever may know how all others stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import prometheus_client
from fastapi import APIRouter, Request, Response

from trunkline.core import telemetry
from trunkline.core.errors import Forbidden
from trunkline.gateway.auth import token_of
from trunkline.gateway.callers import identified
from trunkline.gateway.gauges import gauges
from trunkline.gateway.openapi import content
from trunkline.gateway.problems import Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

router = APIRouter(tags=["state"])


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    response_class=Response,
    responses={200: {"description": "OK", **content({"text/plain": str})}},
)
async def metrics(request: Request) -> Response:
    """In Prometheus' text format; with a token of a reader also how far everybody is behind."""
    text = telemetry.default.render()
    try:
        caller = await identified(request)
        text += prometheus_client.generate_latest(_Told(await gauges(caller)))
    except Unauthenticated:
        if token_of(request) is not None:
            raise
    except Forbidden:
        pass  # whoever asks may know what is no secret
    return Response(text, media_type="text/plain; version=0.0.4")


class _Told(prometheus_client.CollectorRegistry):
    """Figures that were asked for beforehand."""

    def __init__(self, families: Iterable[Metric]):
        super().__init__()
        self._families = families

    def collect(self) -> Iterator[Metric]:
        yield from self._families
