"""Rows as tables, JSON and CSV."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from trunkline.cli.output import (
    Format,
    cell,
    duration,
    open_stream,
    plain,
    print_one,
    print_rows,
    size,
)
from trunkline.log.models import Appended

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = [{"name": "a", "value": b"caf\xc3\xa9"}, {"name": "b", "value": b"\xff\x00"}]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (2**53, 2**53),
        (2**53 + 1, "9007199254740993"),
        (-(2**63), "-9223372036854775808"),
        (True, True),
        (None, None),
        (b"text", "text"),
        (b"\xff", {"base64": "/w=="}),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "2030-01-02T03:04:05Z"),
        (timedelta(days=7), "7d"),
        ([1, {"a": 2**60}], [1, {"a": str(2**60)}]),
        (
            Appended("t", 0, 1, 2),
            {"topic": "t", "partition": 0, "first_offset": 1, "last_offset": 2},
        ),
    ],
)
def test_every_value_has_a_form_in_json(value: Any, expected: Any) -> None:
    assert plain(value) == expected
    json.dumps(plain(value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (timedelta(0), "0s"),
        (timedelta(milliseconds=250), "0.25s"),
        (timedelta(minutes=90), "1h 30m"),
        (timedelta(days=1, seconds=1), "1d 1s"),
        (timedelta(seconds=61.4), "1m 1s"),
        (timedelta(seconds=-5), "-5s"),
    ],
)
def test_durations_read_as_people_write_them(value: timedelta, expected: str) -> None:
    assert duration(value) == expected


def test_sizes_are_short() -> None:
    assert [size(0), size(999), size(98_304), size(2_500_000_000)] == [
        "0 B",
        "999 B",
        "98.3 kB",
        "2.5 GB",
    ]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(rows: Any, form: Format, **options: Any) -> str:
        print_rows(rows, form, **options)
        return capsys.readouterr().out

    return call


def test_json_is_one_array_with_a_row_per_line(printed: Callable[..., str]) -> None:
    out = printed(ROWS, Format.JSON)
    assert [row["value"] for row in json.loads(out)] == ["café", {"base64": "/wA="}]
    assert len(out.splitlines()) == 2
    assert printed([], Format.JSON) == "[]\n"


def test_nl_is_one_object_per_line(printed: Callable[..., str]) -> None:
    assert [json.loads(line)["name"] for line in printed(ROWS, Format.NL).splitlines()] == [
        "a",
        "b",
    ]
    assert printed([], Format.NL) == ""


def test_csv_marks_what_is_no_text(printed: Callable[..., str]) -> None:
    assert printed(ROWS, Format.CSV) == "name,value\na,café\nb,base64:/wA=\n"


def test_a_table_shows_the_chosen_columns_uncut_when_piped(printed: Callable[..., str]) -> None:
    rows = [{"name": "x" * 300, "value": 1, "hidden": "secret"}]
    out = printed(rows, Format.TABLE, columns=("name", "value"))
    assert "x" * 300 in out
    assert "secret" not in out
    assert printed([], Format.TABLE) == ""


def test_a_narrow_terminal_cuts_neither_numbers_nor_names(
    printed: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("LINES", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    numbers = ("first_offset", "last_offset", "archived_first", "archived_last", "segments")
    name, number, text = "ring.webhook_log.rotate_every", 9_123_456_789, "word " * 40
    out = printed([{"name": name, **dict.fromkeys(numbers, number)}], Format.TABLE)
    assert out.count(str(number)) == len(numbers)
    assert name in printed([{"name": name, "value": text, "other": text}], Format.TABLE)


def test_a_narrow_terminal_shows_every_column_of_rows_that_come_later(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "40")
    row = {"partition": 0, "offset": 123, "at": datetime(2030, 1, 2, tzinfo=UTC)}
    stream = open_stream(Format.TABLE, (*row, "key", "value"))
    stream.write([{**row, "key": "alice", "value": "10 apples"}])
    out = capsys.readouterr().out
    assert [word for word in ("123", "2030-01-02", "alice", "10") if word not in out] == []


def test_rows_that_come_later_stand_under_the_header(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    stream = open_stream(Format.TABLE, ("at", "topic", "key", "payload"))
    for number in (1, 2):
        at = datetime(2030, 1, 2, 3, 4, number, tzinfo=UTC)
        stream.write([{"at": at, "topic": "t", "key": "k", "payload": "p"}])
    header, _, first, second = capsys.readouterr().out.splitlines()
    for line in (first, second):
        assert [line.index(f" {word}") for word in "tkp"] == [
            header.index(f" {word}") for word in ("topic", "key", "payload")
        ]
    assert first.replace(":01", ":02") == second


def test_one_thing_is_an_object_not_an_array(capsys: pytest.CaptureFixture[str]) -> None:
    print_one({"name": "a"}, Format.JSON)
    assert capsys.readouterr().out == '{"name": "a"}\n'


def test_one_thing_that_is_too_wide_for_its_terminal_is_told_line_by_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    print_one({"letter": 1, "group_name": "billing"}, Format.TABLE)
    assert capsys.readouterr().out.split() == ["letter", "group", "─" * 15, "1", "billing"]
    row = {"letter": 1, "group_name": "billing", "reason": "x" * 80}
    print_one(row, Format.TABLE)
    told = capsys.readouterr().out
    assert told.split()[:5] == ["letter", "1", "group", "billing", "reason"]
    assert told.count("x") == 80


def test_a_table_lets_no_message_drive_the_terminal() -> None:
    assert cell("value", b"\x1b[31mred\x07\n\x9b") == r"base64:G1szMW1yZWQHCps="
    assert cell("value", "\x1b[31mred\x07\n\x9b") == r"\x1b[31mred\x07\n\x9b"
