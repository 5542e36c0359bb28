"""The stream of a tube, as far as it needs no JVM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import trunkline
from trunkline.core.errors import Invalid, PositionTrimmed
from trunkline.spark.tube_source import TubeSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trunkline.spark.tube_source import TubeStreamReader


@pytest.fixture
def reader(dsn: str) -> Iterator[TubeStreamReader]:
    with trunkline.connect_sync(dsn) as platform:
        platform.tube.ensure("lake")
    source = TubeSource({"dsn": dsn, "tube": "lake"})
    made = source.streamReader(source.schema())
    yield made
    made.stop()


def test_a_position_of_another_life_of_the_server_is_refused(reader: TubeStreamReader) -> None:
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    other = {**start, "incarnation": start["incarnation"] + 1}
    with pytest.raises(PositionTrimmed, match="noted in life 2 of the server; this is life 1"):
        reader.latestOffset(other, ReadAllAvailable())


def test_a_position_of_another_source_is_refused(reader: TubeStreamReader) -> None:
    with pytest.raises(Invalid, match="position of another source"):
        reader.latestOffset({"version": 1, "next": {}}, ReadAllAvailable())
