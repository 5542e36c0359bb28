"""Names of GraphQL for names of SQL: always the same one for the same tables and columns."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_WORD = re.compile(r"[A-Za-z0-9]+")
_NAME = re.compile(r"[_A-Za-z][_0-9A-Za-z]*", re.ASCII)


def camel(name: str) -> str:
    """``org_id`` is ``orgId``; capitals inside a word stay."""
    first, *others = _words(name)
    text = first[:1].lower() + first[1:] + "".join(_capital(word) for word in others)
    return _begun(text, hidden=name.startswith("_"))


def pascal(name: str) -> str:
    """``org_members`` is ``OrgMembers``."""
    return _begun("".join(_capital(word) for word in _words(name)), hidden=False)


def is_label(text: str) -> bool:
    """Whether a value of an enum can be one of GraphQL as it is."""
    return (
        _NAME.fullmatch(text) is not None
        and not text.startswith("__")
        and text not in {"true", "false", "null"}
    )


def unique(
    names: Iterable[str], make: Callable[[str], str], *, taken: Iterable[str] = ()
) -> dict[str, str]:
    """A name for each; where two would be the same, the later one gets a number.

    Names that need no change come first: what else there is does not change them.
    """
    used, made = set(taken), {}
    for name in sorted(names, key=lambda name: (make(name) != name, name)):
        made[name] = free(make(name), used)
        used.add(made[name])
    return made


def free(name: str, used: set[str]) -> str:
    """The name, or the first of ``name_2``, ``name_3`` ... that nobody has."""
    number, candidate = 1, name
    while candidate in used:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def _words(name: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", name)
    text = "".join(
        letter
        if letter.isascii()
        else ""
        if unicodedata.combining(letter)
        else f"_x{ord(letter):x}_"
        for letter in plain
    )
    return _WORD.findall(text) or ["x"]


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def _begun(text: str, *, hidden: bool) -> str:
    return f"_{text}" if hidden or text[0].isdigit() else text
