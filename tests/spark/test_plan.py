"""Which task reads what, without Spark."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from trunkline.core.errors import Invalid
from trunkline.spark.plan import Range, limit, split
from trunkline.spark.positions import Positions, parse_offsets

ranges = st.lists(
    st.builds(
        lambda partition, first, n: Range("t", partition, first, first + n - 1),
        st.integers(0, 5),
        st.integers(1, 1000),
        st.integers(0, 500),
    ),
    max_size=6,
)


@given(ranges, st.none() | st.integers(1, 40))
def test_a_split_covers_every_offset_once(found: list[Range], at_least: int | None) -> None:
    cut = split(found, at_least)
    before = sorted((one.partition, o) for one in found for o in range(one.first, one.last + 1))
    after = sorted((one.partition, o) for one in cut for o in range(one.first, one.last + 1))
    assert after == before
    assert all(len(one) for one in cut)


def test_a_hot_partition_is_cut_into_more_tasks_than_a_cold_one() -> None:
    cut = split([Range("t", 0, 1, 900), Range("t", 1, 1, 100)], 10)
    assert [one.partition for one in cut] == [0] * 9 + [1]


@given(
    st.dictionaries(st.integers(0, 8), st.tuples(st.integers(1, 99), st.integers(0, 400))),
    st.integers(1, 500),
)
@example({0: (1, 1), 1: (1, 1), 2: (1, 4)}, 3)
def test_a_limit_is_kept_and_nobody_starves(backlog: dict[int, tuple[int, int]], most: int) -> None:
    start = {("t", place): first for place, (first, _) in backlog.items()}
    end = {("t", place): first + n for place, (first, n) in backlog.items()}
    ends = limit(start, end, most)
    read = sum(ends[place] - start[place] for place in end)
    waiting = [place for place in end if end[place] > start[place]]
    assert read <= max(most, len(waiting))
    assert all(start[place] < ends[place] <= end[place] for place in waiting)


def test_positions_survive_a_checkpoint() -> None:
    noted = Positions(7, {("orders", 0): 5, ("orders", 11): 1, ("views", 0): 99})
    assert Positions.from_json(noted.to_json()) == noted
    named = replace(noted, topic_ids={"orders": 3, "views": 12})
    assert Positions.from_json(json.loads(json.dumps(named.to_json()))) == named


def test_a_checkpoint_from_before_topics_had_their_ids_in_it_is_read() -> None:
    written = {"version": 1, "incarnation": 7, "next": {"orders": {"0": 5}}}
    assert Positions.from_json(written) == Positions(7, {("orders", 0): 5})


def test_a_checkpoint_of_another_source_is_refused() -> None:
    with pytest.raises(Invalid, match="version None"):
        Positions.from_json({"orders": {"0": 5}})


@pytest.mark.parametrize(
    "text", ["", "now", "[1]", '{"t": 3}', '{"t": {"x": 1}}', '{"t": {"0": "a"}}']
)
def test_offsets_that_are_none_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid, match="startingOffsets"):
        parse_offsets("startingOffsets", text)
