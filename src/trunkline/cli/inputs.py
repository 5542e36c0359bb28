"""What people type, made into values: durations, sizes, places to start, headers."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trunkline.core import durations
from trunkline.core.errors import Invalid
from trunkline.core.unread import Unread

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

FOREVER = frozenset({"forever", "infinity", "none"})

_BYTES = {"": 1, "b": 1} | {
    name + suffix: base**power
    for power, name in enumerate("kmgt", start=1)
    for suffix, base in (("", 1000), ("b", 1000), ("ib", 1024))
}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_MOST_BYTES = 2**63


def duration(text: str, *, option: str) -> timedelta:
    """``7d``, ``12h``, ``30 minutes``, ``1h 30m``."""
    return durations.parse(text, name=option)


def retention(text: str | None) -> timedelta | None:
    """How long to keep messages; None is for ever."""
    if text is None or text.strip().lower() in FOREVER:
        return None
    return duration(text, option="--retention")


def size(text: str, *, option: str) -> int:
    """``500MB``, ``1.5 GiB``, ``1048576``."""
    part = _PART.fullmatch(text.lower())
    if part is None or part[2] not in _BYTES:
        raise Invalid(
            f'{option} takes a number of bytes, got "{text}".',
            hint="For example: 1048576, 500MB, 10GB, 1GiB.",
        )
    count = float(part[1]) * _BYTES[part[2]]
    if count >= _MOST_BYTES:
        raise Invalid(f'{option} takes less than {_MOST_BYTES} bytes, got "{text}".')
    return int(count)


def retention_bytes(text: str | None) -> int | None:
    """How much to keep; None is all."""
    if text is None or text.strip().lower() in FOREVER:
        return None
    return size(text, option="--retention-bytes")


def start(
    text: str,
    *,
    option: str = "--from",
    words: tuple[str, ...] = ("earliest", "hot", "latest"),
    number: str = "an offset",
) -> str | int | datetime:
    """One of ``words``, a number of that kind, a time, or ``2h ago``."""
    word = text.strip()
    if word.lower() in words:
        return word.lower()
    if word.lower().endswith(" ago"):
        return datetime.now(UTC) - duration(word[:-4], option=option)
    try:
        if re.fullmatch(r"-?\d+", word):
            return int(word)
        return datetime.fromisoformat(word).astimezone()
    except (ValueError, OverflowError):
        raise Invalid(
            f'{option} takes {", ".join((*words, number))} or a time, got "{text}".',
            hint=f'For example: {option} 120, {option} 2030-01-31T12:00, {option} "2h ago".',
        ) from None


def moment(text: str, *, option: str = "--deliver-at") -> datetime:
    """A time, or ``in 10m``."""
    word = text.strip()
    if word.lower().startswith("in "):
        return datetime.now(UTC) + duration(word[3:], option=option)
    try:
        return datetime.fromisoformat(word).astimezone()
    except (ValueError, OverflowError):
        raise Invalid(
            f'{option} takes a time, got "{text}".',
            hint=f'For example: {option} 2030-01-31T12:00, {option} "in 10m".',
        ) from None


def json_text(text: str, *, name: str) -> Unread:
    """JSON as it was typed: its numbers keep the digits that Python's would lose."""
    json_value(text, name=name, number=str)
    return Unread(text)


def json_value(text: str, *, name: str, number: Callable[[str], Any] | None = None) -> Any:
    """A value as JSON; without NaN, Infinity and half characters, which only Python takes."""

    def no_constant(word: str) -> None:
        raise Invalid(
            f"{name} is not JSON: it has no {word}.", hint=f"""Use null, or a text: '"{word}"'."""
        )

    try:
        value = json.loads(text, parse_constant=no_constant, parse_int=number, parse_float=number)
        if not text.isascii() or "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except ValueError as error:
        raise Invalid(
            f"{name} is not JSON: {error}.", hint="""Texts need quotes of their own: '"text"'."""
        ) from None
    except RecursionError:
        raise Invalid(f"{name} has more levels than can be read.") from None
    return value


def headers(pairs: list[str] | None) -> dict[str, str] | None:
    """``name=value`` pairs as the headers of a message."""
    found: dict[str, str] = {}
    for pair in pairs or ():
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise Invalid(
                f'--header takes name=value, got "{pair}".', hint="For example: --header trace=abc."
            )
        found[name] = value
    return found or None


def separator(text: str) -> bytes:
    r"""What stands between key and value; ``\t`` is a tab."""
    if not text:
        raise Invalid("--key-separator must not be empty.", hint="For example: --key-separator :")
    return os.fsencode(text.replace("\\t", "\t"))


def columns(text: str | None, *, known: tuple[str, ...], usual: tuple[str, ...]) -> tuple[str, ...]:
    """Names separated by commas."""
    if text is None:
        return usual
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    strange = [name for name in names if name not in known]
    if strange or not names:
        raise Invalid(
            f'--print takes names separated by commas, got "{text}".',
            hint=f"There are: {', '.join(known)}.",
        )
    return names
