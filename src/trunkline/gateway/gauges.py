"""What people alert on: how far everybody is behind, for how long, and what has stopped.

A bounded number of calls, whatever there is of topics, groups and handlers, each a set-based
function that everybody may use who reads. Groups of the log are told by the names that exporters
for Kafka use, so that their dashboards and alerts fit. An offset here is that of the last message,
not of the next one.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prometheus_client.core import GaugeMetricFamily

from trunkline.broker import calls as broker_calls
from trunkline.broker import webhook_calls
from trunkline.core.errors import NotFound
from trunkline.kv import parade_calls
from trunkline.log import calls, group_calls
from trunkline.tube import calls as tube_calls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from prometheus_client import Metric

    from trunkline.broker.models import HandlerLag
    from trunkline.gateway.callers import Caller
    from trunkline.log.models import Ends

_TRIES = 3  # at listing topics, while some are deleted
_OF_A_LANE = (
    ("waiting", "deliveries that a handler has not committed"),
    ("retrying", "events that wait for another try"),
    ("parked", "events that wait behind one that failed"),
    ("dead", "dead letters"),
)


async def gauges(caller: Caller) -> list[Metric]:
    """All of them, as one who asks may know them."""
    return [
        *await _of_log(caller),
        *await _of_broker(caller),
        *await _of_tubes(caller),
        await _of_zones(caller),
    ]


async def _of_log(caller: Caller) -> list[Metric]:
    behind = await caller.run(group_calls.behind())
    ends = await _ends(caller)
    unarchived = await caller.run(calls.archivable())
    group, place = ("consumergroup", "topic", "partition"), ("topic", "partition")
    groups = [((each.group_name, each.topic, each.partition), each) for each in behind]
    partitions = [((each.topic, each.partition), each) for each in ends]
    firsts = {key: each.first_offset for key, each in partitions}
    return [
        _family(
            "kafka_consumergroup_current_offset",
            "the last message that a group has committed",
            group,
            ((key, each.up_to) for key, each in groups),
        ),
        _family(
            "kafka_consumergroup_lag",
            "messages that a group has not committed",
            group,
            ((key, each.lag) for key, each in groups),
        ),
        _family(
            "kafka_consumergroup_lag_seconds",
            "for how long the first message waits that a group has not committed",
            group,
            ((key, each.age.total_seconds()) for key, each in groups),
        ),
        _family(
            "kafka_topic_partition_current_offset",
            "the last message of a partition",
            place,
            ((key, each.last_offset) for key, each in partitions),
        ),
        _family(
            "kafka_topic_partition_oldest_offset",
            "the first message of a partition that can be read, archived or not",
            place,
            ((key, each.first_offset) for key, each in partitions),
        ),
        _family(
            "trunkline_log_lost",
            "messages that have left before a group had committed them",
            ("topic", "group", "partition"),
            (
                ((each.topic, each.group_name, each.partition), max(0, first - 1 - each.up_to))
                for each in behind
                if (first := firsts.get((each.topic, each.partition))) is not None
            ),
        ),
        _family(
            "trunkline_log_unarchived_segments",
            "sealed segments of a topic that wait to be archived",
            ("topic",),
            (((topic,), n) for topic, n in Counter(each.topic for each in unarchived).items()),
        ),
    ]


async def _ends(caller: Caller) -> list[Ends]:
    for _ in range(_TRIES):
        topics = [each.topic for each in await caller.run(calls.list_topics())]
        try:
            return await caller.run(calls.ends(topics))
        except NotFound:
            continue  # one was deleted meanwhile
    return []


async def _of_broker(caller: Caller) -> list[Metric]:
    lanes = await caller.run(broker_calls.lag())
    unnumbered = await caller.run(broker_calls.unnumbered())
    unmatched = await caller.run(broker_calls.unmatched())
    forwardable = await caller.run(broker_calls.forwardable())
    quarantined = await caller.run(broker_calls.quarantined())
    lost = await caller.run(broker_calls.lost())
    webhooks = await caller.run(webhook_calls.webhooks())
    now = datetime.now(UTC)
    return [
        *(
            _family(
                f"trunkline_broker_{name}",
                told,
                ("group", "handler", "lane"),
                ((_lane(each), getattr(each, name)) for each in lanes),
            )
            for name, told in _OF_A_LANE
        ),
        _family(
            "trunkline_broker_waiting_seconds",
            "for how long the first delivery waits that a handler has not committed",
            ("group", "handler", "lane"),
            ((_lane(each), _seconds(each.oldest_at, now)) for each in lanes),
        ),
        _family(
            "trunkline_broker_unnumbered_seconds",
            "for how long the first event waits that the sequencer has not numbered",
            (),
            [((), unnumbered.total_seconds())],
        ),
        _family(
            "trunkline_broker_unmatched",
            "events that the matcher has not matched",
            (),
            [((), unmatched.events)],
        ),
        _family(
            "trunkline_broker_unmatched_seconds",
            "for how long the first event waits that the matcher has not matched",
            (),
            [((), unmatched.age.total_seconds())],
        ),
        _family(
            "trunkline_broker_forwardable",
            "events that are not forwarded into the log yet",
            ("topic",),
            (((topic,), events) for topic, events in forwardable.items()),
        ),
        _family(
            "trunkline_broker_lost",
            "deliveries that have left before a group had read them",
            ("group",),
            (((group,), number) for group, number in lost.items()),
        ),
        _family(
            "trunkline_broker_quarantined",
            "subscriptions whose conditions failed",
            ("group",),
            (((group,), number) for group, number in quarantined.items()),
        ),
        _family(
            "trunkline_webhook_paused",
            "1 for a webhook that is paused by hand or because it kept failing",
            ("group", "webhook"),
            (((each.group_name, each.webhook), each.paused_at is not None) for each in webhooks),
        ),
        _family(
            "trunkline_webhook_failing",
            "events that could not be sent and wait for another try, or behind such a one",
            ("group", "webhook"),
            (((each.group_name, each.webhook), each.waiting) for each in webhooks),
        ),
    ]


async def _of_tubes(caller: Caller) -> list[Metric]:
    lanes = await caller.run(tube_calls.stats())
    return [
        _family(
            "trunkline_tube_waiting",
            "entries that a lane has not acknowledged",
            ("tube", "lane", "priority"),
            (
                ((lane.tube, lane.lane, priority), getattr(lane, f"{priority}_entries"))
                for lane in lanes
                for priority in ("live", "backfill")
            ),
        ),
        _family(
            "trunkline_tube_parked",
            "keys that keep failing",
            ("tube", "lane"),
            (((lane.tube, lane.lane), lane.parked) for lane in lanes),
        ),
    ]


async def _of_zones(caller: Caller) -> Metric:
    zones = await caller.run(parade_calls.status())
    return _family(
        "trunkline_kv_behind",
        "changes of another instance that this one has not pulled",
        ("instance",),
        (((zone.instance,), zone.behind) for zone in zones if zone.behind is not None),
    )


def _lane(each: HandlerLag) -> tuple[str, str, int]:
    return each.group_name, each.handler, each.lane


def _seconds(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())


def _family(
    name: str,
    told: str,
    labels: Sequence[str],
    values: Iterable[tuple[tuple[Any, ...], float]],
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, told, labels=labels)
    for key, value in values:
        family.add_metric([str(part) for part in key], value)
    return family
