"""What a topic or a lake holds, in a topic again, or as keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import trunkline
from trunkline.core.errors import Invalid
from trunkline.spark import replay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from trunkline.platform import SyncPlatform


@pytest.fixture
def tl(dsn: str) -> Iterator[SyncPlatform]:
    with trunkline.connect_sync(dsn) as platform:
        platform.log.create("orders", partitions=2)
        platform.log.create("again", partitions=2)
        for n in range(20):
            platform.log.append("orders", [b"%d" % n], keys=[b"k%d" % (n % 7)], headers=[{"n": n}])
        yield platform


def stored(tl: SyncPlatform, topic: str) -> list[list[tuple[bytes | None, bytes | None, object]]]:
    return [[(m.key, m.value, m.headers) for m in tl.log.read(topic, part)] for part in (0, 1)]


def test_a_topic_is_replayed_in_order_and_once_under_its_name(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    def run(**more: object) -> int:
        return replay(spark, "topic:orders", "again", dsn=dsn, **more).rows  # type: ignore[arg-type]

    assert run(dry_run=True) == 20
    assert run(app_id="once", since="2999-01-01") == 0  # nothing: the name stays free
    assert stored(tl, "again") == [[], []]
    assert run(app_id="once") == 20
    assert stored(tl, "again") == stored(tl, "orders")
    assert run(app_id="once") == 0
    assert stored(tl, "again") == stored(tl, "orders")


def test_a_part_of_a_lake_is_replayed_and_keeps_its_partitions(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    rows = spark.read.format("trunkline.log").options(dsn=dsn, subscribe="orders").load()
    rows.write.parquet(str(tmp_path / "lake"))
    done = replay(
        spark,
        f"parquet:{tmp_path / 'lake'}",
        "again",
        dsn=dsn,
        since="2000-01-01",
        until="2999-01-01T00:00:00+02:00",
        where="offset <= 3",
        keep_partitions=True,
    )
    assert done.rows == 6
    values = [[value for _, value, _ in part] for part in stored(tl, "again")]
    assert values == [[value for _, value, _ in part[:3]] for part in stored(tl, "orders")]


def test_a_lake_without_values_is_refused(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    assert tl
    spark.range(3).write.parquet(str(tmp_path / "lake"))
    with pytest.raises(Invalid, match="has no column value"):
        replay(spark, f"parquet:{tmp_path / 'lake'}", "again", dsn=dsn)


def test_a_condition_that_makes_no_sense_is_refused_with_the_columns_there_are(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    for condition, said in (("nosuch > 1", "`nosuch` cannot be resolved"), ("((", "PARSE_SYNTAX")):
        with pytest.raises(Invalid) as caught:
            replay(spark, "topic:orders", "again", dsn=dsn, where=condition)
        assert said in caught.value.message
        assert "\n" not in caught.value.message
        assert "key, value, topic" in caught.value.hint
    assert stored(tl, "again") == [[], []]


def test_an_origin_that_is_not_there_or_has_no_times_is_refused_in_one_sentence(
    spark: SparkSession, dsn: str, tl: SyncPlatform, tmp_path: Path
) -> None:
    with pytest.raises(Invalid, match=r"parquet:.*nothing cannot be read.*PATH_NOT_FOUND"):
        replay(spark, f"parquet:{tmp_path / 'nothing'}", "again", dsn=dsn)
    scores = str(tmp_path / "scores")
    spark.sql("select 'a' as key, '1' as value").write.parquet(scores)
    with pytest.raises(Invalid, match="has no column timestamp"):
        replay(spark, f"parquet:{scores}", "again", dsn=dsn, since="2026-01-01")
    assert stored(tl, "again") == [[], []]


def test_the_last_value_of_each_key_is_put_once_into_a_namespace(
    spark: SparkSession, dsn: str, tl: SyncPlatform
) -> None:
    tl.log.create("settings", partitions=2, compact=True)
    keys = [b"a", b"b", b"c", b"a", b"c"]
    tl.log.append("settings", [b"1", b'{"x": "\xc3\xa4"}', b"3", b"[4]", None], keys=keys)
    tl.kv.namespace_put("loaded")
    tl.kv.put_many({"c": "goes", "d": "stays"}, namespace="loaded")
    loaded = {"a": [4], "b": {"x": "ä"}, "d": "stays"}

    def run(**more: object) -> int:
        return replay(spark, "topic:settings", "kv:loaded", dsn=dsn, **more).rows  # type: ignore[arg-type]

    assert run(app_id="once") == 5
    assert {entry.key: entry.value for entry in tl.kv.scan(namespace="loaded")} == loaded
    tl.kv.put("a", "newer", namespace="loaded")
    assert run(app_id="once") == 0
    assert tl.kv.get("a", namespace="loaded") == "newer"
    tl.log.append("settings", [b"5"], keys=[b"no text: \xff"])
    with pytest.raises(Invalid, match="no text in UTF-8"):
        run()
    assert tl.kv.get("a", namespace="loaded") == "newer"
    assert run(where="is_valid_utf8(string(key))") == 5
    assert {entry.key: entry.value for entry in tl.kv.scan(namespace="loaded")} == loaded
