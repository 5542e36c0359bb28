"""Ids of events as people have them: a number, its digits, or the text of `event_id_text()`."""

from __future__ import annotations

import re

from trunkline.core.errors import Invalid

_TEXT = re.compile(r"ev[0-9a-f]{14}([0-7][0-9a-f]{15})")
_DIGITS = re.compile(r"[0-9]{1,19}")
_LARGEST = 2**63 - 1


def event_number(event_id: int | str) -> int:
    """The id as a number, whichever way it is written; `Invalid` for what is none."""
    number = _read(event_id) if isinstance(event_id, str) else event_id
    if number is None or not 1 <= number <= _LARGEST:
        raise Invalid(
            f"event_id is the number of an event, or ev and 30 hexadecimal digits,"
            f" got {event_id!r:.100}."
        )
    return number


def _read(text: str) -> int | None:
    if _DIGITS.fullmatch(text):
        return int(text)
    found = _TEXT.fullmatch(text)
    return int(found[1], 16) if found else None
