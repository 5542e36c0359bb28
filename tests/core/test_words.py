"""Numbers in sentences, in Python and in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from trunkline.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection[tuple[str]]]:
    with psycopg.connect(dsn) as opened:
        yield opened


def test_one_is_told_as_one(session: psycopg.Connection[tuple[str]]) -> None:
    for words, said in (
        ((0, "key"), "0 keys"),
        ((1, "key"), "1 key"),
        ((2, "key"), "2 keys"),
        ((1, "entry is", "entries are"), "1 entry is"),
        ((3, "entry is", "entries are"), "3 entries are"),
    ):
        assert counted(*words) == said
        places = ", ".join(["%s"] * len(words))
        assert session.execute(f"select trunkline._counted({places})", words).fetchone() == (said,)
