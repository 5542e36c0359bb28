"""``/metrics``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.serving import EXPIRED, READER, bearer

if TYPE_CHECKING:
    from tests.gateway.serving import Web


def samples(text: str, name: str) -> dict[tuple[str, ...], float]:
    """The samples of a metric by the values of their labels, in the order of the names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


async def test_how_far_groups_are_behind_is_told_by_the_names_of_kafkas_exporters(
    web: Web, fresh: str
) -> None:
    log = web.platform.log
    await log.create(fresh)
    await log.append(fresh, ["a", "b", "c"])
    async with log.consume(fresh, "billing", max_messages=2, start="earliest") as consumer:
        batch = await consumer.poll(5)
        assert batch is not None
        await batch.commit()
    group = ("billing", "0", fresh)
    text = (await web.raw("GET", "/metrics", role=READER)).text
    done = samples(text, "kafka_consumergroup_current_offset")[group]
    assert samples(text, "kafka_consumergroup_lag")[group] == 3 - done
    assert samples(text, "kafka_topic_partition_current_offset")["0", fresh] == 3
    assert samples(text, "trunkline_log_lost")[group] == 0
    assert samples(text, "kafka_topic_partition_oldest_offset")["0", fresh] == 1
    assert samples(text, "kafka_consumergroup_lag_seconds")[group] > 0
    assert samples(text, "trunkline_log_appended_messages_total")[(fresh,)] == 3


async def test_handlers_and_tubes_are_told_too(web: Web, fresh: str) -> None:
    broker = web.platform.broker
    await broker.subscribe(fresh, {"topic": fresh}, handler="bill")
    await broker.publish(fresh, 1)
    while not await broker.tick() + await broker.match():
        pass
    await broker.match()
    await web.platform.tube.ensure(fresh)
    text = (await web.raw("GET", "/metrics", role=READER)).text
    assert samples(text, "trunkline_broker_lost")[(fresh,)] == 0
    waiting = samples(text, "trunkline_broker_waiting")
    assert sum(value for key, value in waiting.items() if fresh in key) == 1
    ages = samples(text, "trunkline_broker_waiting_seconds")
    assert sum(value > 0 for key, value in ages.items() if fresh in key) == 1
    assert any(fresh in key for key in samples(text, "trunkline_tube_waiting"))


async def test_what_groups_have_lost_is_told(web: Web, fresh: str) -> None:
    log = web.platform.log
    await log.create(fresh)
    await log.append(fresh, ["a", "b", "c"])
    async with log.consume(fresh, "billing", max_messages=1, start="earliest") as consumer:
        batch = await consumer.poll(5)
        assert batch is not None
        await batch.commit()
    await log.trim(fresh, 0, 3)
    text = (await web.raw("GET", "/metrics", role=READER)).text
    assert samples(text, "trunkline_log_lost")["billing", "0", fresh] == 1


async def test_what_has_stopped_is_told(web: Web, fresh: str) -> None:
    broker, log = web.platform.broker, web.platform.log
    await broker.subscribe(fresh, f"e.topic = '{fresh}' and 1 / (e.payload)::int > 0")
    webhook = await broker.webhook_add(fresh, "https://example.org/", {"topic": "none"})
    await broker.webhook_pause(webhook, "moving")
    await log.create(f"{fresh}.old")
    await log.append(f"{fresh}.old", ["a", "b"])
    await log.trim(f"{fresh}.old", 0, 2)
    await log.create(fresh)
    await broker.publish(fresh, 0)
    text = (await web.raw("GET", "/metrics", role=READER)).text
    assert samples(text, "trunkline_broker_unnumbered_seconds")[()] > 0
    assert samples(text, "kafka_topic_partition_oldest_offset")["0", f"{fresh}.old"] == 2
    await broker.tick()
    text = (await web.raw("GET", "/metrics", role=READER)).text
    assert samples(text, "trunkline_broker_unnumbered_seconds")[()] == 0
    assert samples(text, "trunkline_broker_unmatched")[()] > 0
    assert samples(text, "trunkline_broker_unmatched_seconds")[()] > 0
    assert samples(text, "trunkline_broker_forwardable")[(fresh,)] == 1
    while await broker.match():
        pass
    text = (await web.raw("GET", "/metrics", role=READER)).text
    assert samples(text, "trunkline_broker_unmatched")[()] == 0
    assert samples(text, "trunkline_broker_quarantined")[(fresh,)] == 1
    assert samples(text, "trunkline_webhook_paused")[fresh, str(webhook)] == 1
    assert samples(text, "trunkline_webhook_failing")[fresh, str(webhook)] == 0


async def test_whoever_has_no_token_or_no_right_is_told_of_the_process_alone(
    web: Web, fresh: str
) -> None:
    await web.platform.log.create(fresh)
    for role in (None, "pg_monitor"):
        answer = await web.raw("GET", "/metrics", role=role)
        assert answer.status_code == 200, answer.text
        assert "kafka_" not in answer.text
    expired = await web.raw("GET", "/metrics", role=None, headers=bearer(READER, **EXPIRED))
    assert expired.status_code == 401
