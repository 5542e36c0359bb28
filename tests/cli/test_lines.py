"""Lines, as they come."""

from __future__ import annotations

import pytest

from trunkline.cli import lines
from trunkline.cli.lines import Rest
from trunkline.core.errors import TooLarge


def test_lines_come_whole_wherever_chunks_are_cut() -> None:
    text = b"one\n\nthree and\na bit"
    for size in range(1, len(text) + 1):
        rest = Rest()
        chunks = [text[at : at + size] for at in range(0, len(text), size)]
        assert [line for chunk in chunks for line in rest.lines(chunk)] == [
            b"one",
            b"",
            b"three and",
        ]
        assert rest.last() == b"a bit"


def test_a_line_without_an_end_is_refused_before_memory_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "_LONGEST", 1 << 20)
    rest = Rest()
    assert rest.lines(bytes(1 << 20)) == []
    with pytest.raises(TooLarge, match="at most 1 MiB"):
        rest.lines(b"x")
