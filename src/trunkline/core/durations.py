"""Durations as people write and read them: ``7d``, ``12h``, ``30 minutes``, ``1h 30m``."""

from __future__ import annotations

import re
from datetime import timedelta

EXAMPLES = "For example: 30s, 15 minutes, 12h, 7d, 1h 30m."

_SECONDS = {
    "ms": 0.001,
    "millisecond": 0.001,
    "s": 1,
    "sec": 1,
    "second": 1,
    "m": 60,
    "min": 60,
    "minute": 60,
    "h": 3_600,
    "hour": 3_600,
    "d": 86_400,
    "day": 86_400,
    "w": 604_800,
    "week": 604_800,
}
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_LONGEST = timedelta(days=365_000)


def parse(text: str, *, name: str) -> timedelta:
    """A duration from its text; ``name`` is what was given it, for the error."""
    from trunkline.core.errors import Invalid  # who only tells durations needs no database

    seconds, rest = 0.0, text.strip().lower()
    while rest:
        part = _PART.match(rest)
        unit = part and (_SECONDS.get(part[2]) or _SECONDS.get(part[2].removesuffix("s")))
        if not part or not unit:
            raise Invalid(f'{name} takes a duration, got "{text}".', hint=EXAMPLES)
        seconds += float(part[1]) * unit
        rest = rest[part.end() :]
    if not text.strip() or seconds > _LONGEST.total_seconds():
        raise Invalid(f'{name} takes a duration of up to 1000 years, got "{text}".')
    return timedelta(seconds=seconds)


def told(value: timedelta) -> str:
    """A duration as people type it: ``7d``, ``1h 30m``, ``0.25s``."""
    seconds = value.total_seconds()
    if seconds < 0:
        return "-" + told(-value)
    if seconds != int(seconds):
        if seconds < 10:
            return f"{round(seconds, 3):g}s"
        seconds = round(seconds)
    rest = int(seconds)
    parts = []
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"
