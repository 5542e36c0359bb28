"""Patterns of topics in SQL conditions: words between dots, ``*`` is one word, ``#`` any number.

The database reads patterns of the JSON form by itself; this is for those that are to hold together
with a condition in SQL.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPECIAL = re.compile(r"([\\^$+?()\[\]{}|])")
_PART_OF_A_WORD = re.compile(r"[^.][*#]|[*#][^.]")


def topics_sql(patterns: Sequence[str]) -> str:
    """An expression over ``e`` that says whether its topic fits one of the patterns."""
    return " or ".join(
        f"e.topic ~ {_quoted(_regex(pattern))}"
        if "*" in pattern or "#" in pattern
        else f"e.topic = {_quoted(pattern)}"
        for pattern in patterns
    )


def _regex(pattern: str) -> str:
    if _PART_OF_A_WORD.search(pattern):
        raise Invalid(
            f'"{pattern}" is not a pattern of topics.',
            hint='* stands for one whole word, # for any number of them: "orders.*", "orders.#".',
        )
    words = pattern.split(".")
    regex, dotted = "^", False
    for place, word in enumerate(words, 1):
        if word == "#":
            regex += r"(\..*)?" if dotted else ".*" if place == len(words) else r"(.*\.)?"
        else:
            regex += r"\." if dotted else ""
            regex += "[^.]+" if word == "*" else _SPECIAL.sub(r"\\\1", word)
            dotted = True
    return regex + "$"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
