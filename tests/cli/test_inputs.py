"""What people type."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pytest

from trunkline.cli import inputs
from trunkline.core.errors import Invalid


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", timedelta(days=7)),
        ("12h", timedelta(hours=12)),
        ("30 minutes", timedelta(minutes=30)),
        ("1 Week", timedelta(weeks=1)),
        ("1h 30m", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("1.5 hours", timedelta(minutes=90)),
        ("250ms", timedelta(milliseconds=250)),
        ("0s", timedelta(0)),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text: str, expected: timedelta) -> None:
    assert inputs.duration(text, option="--retention") == expected


@pytest.mark.parametrize("text", ["", " ", "7", "d", "-1d", "7 moons", "7d or so", "9999999999d"])
def test_what_is_no_duration_is_refused_with_the_name_of_the_option(text: str) -> None:
    with pytest.raises(Invalid, match="--retention takes a duration"):
        inputs.duration(text, option="--retention")


@pytest.mark.parametrize("text", [None, "forever", "Forever", "infinity", "none"])
def test_for_ever_is_no_retention(text: str | None) -> None:
    assert inputs.retention(text) is None
    assert inputs.retention_bytes(text) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1048576", 2**20),
        ("500MB", 500_000_000),
        ("1GiB", 2**30),
        ("1.5 kB", 1500),
        ("2g", 2 * 10**9),
    ],
)
def test_a_size_has_a_unit_or_is_in_bytes(text: str, expected: int) -> None:
    assert inputs.size(text, option="--retention-bytes") == expected


@pytest.mark.parametrize("text", ["", "lots", "-5", "5 parsecs"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="number of bytes"):
        inputs.size(text, option="--retention-bytes")


@pytest.mark.parametrize("text", ["9" * 400, "99999999999 TB", str(2**63)])
def test_a_size_that_no_disk_has_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=f"less than {2**63} bytes"):
        inputs.size(text, option="--retention-bytes")


def test_a_place_is_a_word_an_offset_or_a_time() -> None:
    assert inputs.start("Latest") == "latest"
    assert inputs.start("120") == 120
    assert inputs.start("-1") == -1
    assert inputs.start("2030-01-31T12:00+02:00") == datetime(2030, 1, 31, 10, tzinfo=UTC)
    local = inputs.start("2030-01-31")
    assert isinstance(local, datetime)
    assert local.tzinfo is not None
    ago = inputs.start("2h ago")
    assert isinstance(ago, datetime)
    assert timedelta(hours=1.9) < datetime.now(UTC) - ago < timedelta(hours=2.1)
    with pytest.raises(Invalid, match="--to takes earliest"):
        inputs.start("yesterday", option="--to")
    with pytest.raises(Invalid, match="--to takes now, a page or a time"):
        inputs.start("latest", option="--to", words=("now",), number="a page")
    with pytest.raises(Invalid, match="--to takes a page or a time"):
        inputs.start("latest", option="--to", words=(), number="a page")


@pytest.mark.parametrize("text", ["9" * 5000, "0001-01-01T00:00+14:00", "9999-12-31T23:59-14:00"])
def test_a_place_that_is_out_of_this_world_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="--from takes"):
        inputs.start(text)
    with pytest.raises(Invalid, match="--deliver-at takes"):
        inputs.moment(text)


def test_headers_are_pairs() -> None:
    assert inputs.headers(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    assert inputs.headers(None) is None
    for bad in ("a", "=1"):
        with pytest.raises(Invalid, match="name=value"):
            inputs.headers([bad])


def test_unknown_columns_are_refused_with_those_there_are() -> None:
    known = ("key", "value", "offset")
    assert inputs.columns("offset, key", known=known, usual=known) == ("offset", "key")
    assert inputs.columns(None, known=known, usual=("key",)) == ("key",)
    for bad in ("colour", "key,colour", ","):
        with pytest.raises(Invalid, match="key, value, offset"):
            inputs.columns(bad, known=known, usual=known)


def test_a_separator_may_be_a_tab_but_not_nothing() -> None:
    assert inputs.separator("\\t") == b"\t"
    assert inputs.separator(os.fsdecode(b"\xff")) == b"\xff"
    with pytest.raises(Invalid):
        inputs.separator("")
