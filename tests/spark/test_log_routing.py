"""How rows become record batches: where they go, and how large the batches are."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from trunkline.core.errors import Invalid, NotFound, TooLarge
from trunkline.log.batches import partition_of
from trunkline.log.models import Topic
from trunkline.spark.log_routing import BATCH_BYTES, BATCH_MESSAGES, Routed, Router


def topic(name: str = "t", **settings: Any) -> Topic:
    known = dict.fromkeys(Topic.__dataclass_fields__)
    plain = Topic(**known)  # type: ignore[arg-type]
    usual = {"partitions": 2, "compact": False, "codec": "none", "created_at": datetime.now(UTC)}
    return replace(plain, topic=name, **usual | settings)


def routed(known: Topic, *batches: dict[str, list[Any]], **options: Any) -> list[Routed]:
    given = {"message_bytes": 4 * BATCH_BYTES, "topic": known.topic} | options
    router = Router(lambda name: replace(known, topic=name), **given)
    full = [one for batch in batches for one in router.add(pa.record_batch(batch))]
    return full + list(router.finish())


def sizes(batches: list[Routed]) -> list[tuple[int, int]]:
    return [(one.partition, one.batch.n) for one in batches]


def test_small_arrow_batches_gather_into_full_record_batches() -> None:
    rows = {"value": [b"x"] * 2000}
    assert sizes(routed(topic(partitions=1), *[rows] * 6)) == [(0, 5000), (0, 5000), (0, 2000)]


def test_a_large_arrow_batch_is_cut_by_messages_and_by_bytes() -> None:
    assert sizes(routed(topic(partitions=1), {"value": [b"x"] * 12_000})) == [
        (0, BATCH_MESSAGES),
        (0, BATCH_MESSAGES),
        (0, 2000),
    ]
    large = b"x" * (BATCH_BYTES // 2)
    found = routed(topic(partitions=1), {"value": [large, large, large, large * 4, b"y"]})
    assert sizes(found) == [(0, 2), (0, 1), (0, 1), (0, 1)]


def test_keys_choose_and_the_column_partition_overrules_them_in_the_order_of_rows() -> None:
    keys = [b"a", b"b", None, b"a"]
    found = routed(
        topic(partitions=4),
        {"value": [b"0", b"1", b"2", b"3"], "key": keys, "partition": [None, None, 3, 1]},
    )
    expected: dict[int, bytes] = {}
    for value, key, chosen in zip(b"0123", keys, [None, None, 3, 1], strict=True):
        place = partition_of(key or b"", 4) if chosen is None else chosen
        expected[place] = expected.get(place, b"") + bytes([value])
    assert {one.partition: one.batch.payload for one in found} == expected


def test_rows_without_a_key_go_to_one_partition_after_the_other() -> None:
    rows = {"value": [b"x"] * 10}
    assert sizes(routed(topic(partitions=3), rows, rows, rows, rows, turn=1)) == [
        (2, 20),
        (0, 10),
        (1, 10),
    ]


def test_every_row_may_name_its_topic() -> None:
    found = routed(topic(), {"value": ["1", "2", "3"], "topic": ["a", "b", "a"]}, topic=None)
    assert sorted((one.topic, one.batch.n) for one in found) == [("a", 2), ("b", 1)]
    with pytest.raises(Invalid, match="a row has no topic"):
        routed(topic(), {"value": ["1"], "topic": pa.array([None], pa.string())}, topic=None)


def test_what_a_topic_does_not_take_is_refused() -> None:
    with pytest.raises(Invalid, match="not compacted: a value must not be null"):
        routed(topic(), {"value": pa.array([None], pa.binary())})
    with pytest.raises(Invalid, match="every message needs a key"):
        routed(topic(compact=True), {"value": [b"x"], "key": pa.array([None], pa.binary())})
    with pytest.raises(TooLarge, match="a message holds at most 5 bytes, got 6"):
        routed(topic(), {"value": [b"123456"]}, message_bytes=5)
    with pytest.raises(NotFound, match="has partitions 0 to 1, asked for -1"):
        routed(topic(), {"value": [b"x"], "partition": [-1]})
    with pytest.raises(Invalid, match="are not JSON"):
        routed(topic(), {"value": [b"x"], "headers": ["{"]})
