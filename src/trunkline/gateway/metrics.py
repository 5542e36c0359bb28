"""``/metrics``: the counters of this process, and for whoever may know how far everybody is behind.

Groups of the log are told by the names that exporters for Kafka use, so that their dashboards and
alerts fit. An offset here is that of the last message, not of the next one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import prometheus_client
from fastapi import APIRouter, Request, Response
from prometheus_client.core import GaugeMetricFamily

from trunkline.broker import calls as broker_calls
from trunkline.core import telemetry
from trunkline.core.errors import Forbidden
from trunkline.gateway.auth import token_of
from trunkline.gateway.callers import identified
from trunkline.gateway.problems import Unauthenticated
from trunkline.kv import parade_calls
from trunkline.log import group_calls
from trunkline.tube import calls as tube_calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from prometheus_client import Metric

    from trunkline.gateway.callers import Caller

router = APIRouter(tags=["state"])


@router.get("/metrics", summary="Figures for Prometheus", response_class=Response)
async def metrics(request: Request) -> Response:
    """In Prometheus' text format; with a token of a reader also how far everybody is behind."""
    text = telemetry.default.render()
    try:
        caller = await identified(request)
        text += prometheus_client.generate_latest(_Told(await _families(caller)))
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


async def _families(caller: Caller) -> list[Metric]:
    positions = await caller.run(group_calls.groups())
    lanes = await caller.run(broker_calls.lag())
    groups = await caller.run(broker_calls.groups())
    tubes = await caller.run(tube_calls.stats())
    zones = await caller.run(parade_calls.status())
    group = ("consumergroup", "topic", "partition")
    ends = {(p.topic, p.partition): p.last_offset for p in positions}
    return [
        _family(
            "kafka_consumergroup_current_offset",
            "the last message that a group has committed",
            group,
            (((p.group_name, p.topic, p.partition), p.up_to) for p in positions),
        ),
        _family(
            "kafka_consumergroup_lag",
            "messages that a group has not committed",
            group,
            (((p.group_name, p.topic, p.partition), p.lag) for p in positions),
        ),
        _family(
            "kafka_topic_partition_current_offset",
            "the last message of a partition that a group reads",
            ("topic", "partition"),
            ends.items(),
        ),
        _family(
            "trunkline_log_lost",
            "messages that have left before a group had committed them",
            ("topic", "group", "partition"),
            (((p.topic, p.group_name, p.partition), p.lost) for p in positions),
        ),
        _family(
            "trunkline_broker_lost",
            "deliveries that have left before a group had read them",
            ("group",),
            (((g.group_name,), g.lost) for g in groups),
        ),
        *(
            _family(
                f"trunkline_broker_{name}",
                told,
                ("group", "handler", "lane"),
                (
                    ((lane.group_name, lane.handler, lane.lane), getattr(lane, name))
                    for lane in lanes
                ),
            )
            for name, told in (
                ("waiting", "deliveries that a handler has not committed"),
                ("retrying", "events that wait for another try"),
                ("parked", "events that wait behind one that failed"),
                ("dead", "dead letters"),
            )
        ),
        _family(
            "trunkline_tube_waiting",
            "entries that a lane has not acknowledged",
            ("tube", "lane", "priority"),
            (
                ((lane.tube, lane.lane, priority), getattr(lane, f"{priority}_entries"))
                for lane in tubes
                for priority in ("live", "backfill")
            ),
        ),
        _family(
            "trunkline_tube_parked",
            "keys that keep failing",
            ("tube", "lane"),
            (((lane.tube, lane.lane), lane.parked) for lane in tubes),
        ),
        _family(
            "trunkline_kv_behind",
            "changes of another instance that this one has not pulled",
            ("instance",),
            (((zone.instance,), zone.behind) for zone in zones if zone.behind is not None),
        ),
    ]


def _family(
    name: str,
    told: str,
    labels: Sequence[str],
    values: Iterable[tuple[tuple[Any, ...], int]],
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, told, labels=labels)
    for key, value in values:
        family.add_metric([str(part) for part in key], value)
    return family
