"""What users say with options, without Spark's JVM."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThanOrEqual

from trunkline.core.errors import Invalid
from trunkline.spark.filters import Bounds
from trunkline.spark.log_options import LogOptions
from trunkline.spark.log_source import LogSource
from trunkline.spark.plan import Range


def test_names_are_those_of_spark_in_any_case() -> None:
    options = LogOptions.parse({"SUBSCRIBE": "a, b", "maxoffsetspertrigger": "5"})
    assert options.subscribe == ("a", "b")
    assert options.max_offsets_per_trigger == 5


def test_an_unknown_option_is_refused_with_the_list_of_those_there_are() -> None:
    with pytest.raises(Invalid, match=r"no option startingOffset\..*startingOffsets"):
        LogOptions.parse({"subscribe": "a", "startingOffset": "earliest"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "option subscribe is missing"),
        ({"subscribe": " , "}, "option subscribe"),
        ({"subscribe": "a", "minPartitions": "0"}, "option minPartitions"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "many"}, "option maxOffsetsPerTrigger"),
        ({"subscribe": "a", "columns": "value,x"}, "there is no column x"),
        (
            {"subscribe": "a", "startingOffsets": "latest", "startingTimestamp": "1"},
            "contradict",
        ),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "cannot be earliest"),
        ({"subscribe": "a", "startingTimestamp": "yesterday"}, "option startingTimestamp"),
        ({"subscribe": "a", "startingTimestamp": "9" * 400}, "there is no such time"),
        ({"subscribe": "a", "assign": '{"a": [0]}'}, "assign and subscribe contradict"),
        ({"subscribePattern": "a("}, "option subscribePattern: this is no regular expression"),
        ({"assign": '{"a": []}'}, "option assign: partitions are JSON by topic"),
        ({"assign": '{"a": [true]}'}, "option assign: partitions are JSON by topic"),
        ({"assign": "a"}, "option assign: partitions are JSON by topic"),
        (
            {"subscribe": "a", "startingOffsetsByTimestamp": '{"a": {"0": -1}}'},
            "option startingOffsetsByTimestamp: times are JSON",
        ),
        ({"subscribe": "a", "startingOffsetsByTimestamp": "{}"}, "times are JSON"),
        (
            {
                "subscribe": "a",
                "endingOffsets": "latest",
                "endingOffsetsByTimestamp": '{"a": {"0": 1}}',
            },
            "endingOffsets and endingOffsetsByTimestamp contradict",
        ),
        ({"subscribe": "a", "maxTriggerDelay": "1m"}, "maxTriggerDelay is for minOffsetsPer"),
        (
            {"subscribe": "a", "minOffsetsPerTrigger": "1", "maxTriggerDelay": "soon"},
            "a duration is a number and a unit",
        ),
        ({"subscribe": "a", "startingOffsets": ""}, "option startingOffsets: string should have"),
        ({"subscribe": "a", "endingOffsets": ""}, "option endingOffsets: string should have"),
        ({"subscribe": "a", "groupId": ""}, "option groupId: string should have"),
        ({"subscribe": "a", "dsn": ""}, "option dsn: string should have"),
        (
            {"subscribe": "a", "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            "minOffsetsPerTrigger is more than maxOffsetsPerTrigger",
        ),
    ],
)
def test_options_that_make_no_sense_are_one_sentence(given: dict[str, str], said: str) -> None:
    with pytest.raises(Invalid, match=said):
        LogOptions.parse(given)


def test_a_password_is_not_shown_with_the_options() -> None:
    options = LogOptions.parse({"subscribe": "a", "dsn": "postgresql://u:secret@h/d"})
    assert "secret" not in repr(options)


def test_moments_are_milliseconds_or_iso_texts() -> None:
    for text in ("1700000000000", "2023-11-14T22:13:20Z"):
        options = LogOptions.parse({"subscribe": "a", "startingTimestamp": text})
        assert options.starting_timestamp == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_a_batch_and_a_stream_refuse_the_options_of_the_other() -> None:
    schema = LogSource({"subscribe": "a"}).schema()
    with pytest.raises(Invalid, match="maxOffsetsPerTrigger is not for a batch"):
        LogSource({"subscribe": "a", "maxOffsetsPerTrigger": "5"}).reader(schema)
    with pytest.raises(Invalid, match="minOffsetsPerTrigger is not for a batch"):
        LogSource({"subscribe": "a", "minOffsetsPerTrigger": "5"}).reader(schema)
    with pytest.raises(Invalid, match="endingOffsets is not for a stream"):
        LogSource({"subscribe": "a", "endingOffsets": "latest"}).streamReader(schema)


def test_columns_narrow_the_schema_and_headers_are_asked_for() -> None:
    assert LogSource({"subscribe": "a"}).schema().fieldNames() == [
        "key", "value", "topic", "partition", "offset", "timestamp",
    ]  # fmt: skip
    assert LogSource({"subscribe": "a", "includeHeaders": "true"}).schema().fieldNames()[-1] == (
        "headers"
    )
    assert LogSource({"subscribe": "a", "columns": "offset,value"}).schema().fieldNames() == [
        "offset",
        "value",
    ]


def test_filters_narrow_what_is_read() -> None:
    bounds = Bounds.of(
        [
            In(("topic",), ("a", "b")),
            EqualTo(("partition",), 1),
            GreaterThan(("offset",), 10),
            LessThanOrEqual(("offset",), 20),
            EqualTo(("value",), b"x"),
        ]
    )
    assert bounds.narrow(Range("a", 1, 1, 100)) == Range("a", 1, 11, 20)
    assert len(bounds.narrow(Range("a", 0, 1, 100))) == 0
    assert len(bounds.narrow(Range("c", 1, 1, 100))) == 0
