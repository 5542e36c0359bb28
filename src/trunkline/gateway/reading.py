"""JSON that somebody sent, as what it means."""

from __future__ import annotations

import json
from typing import Any

from trunkline.core.errors import Invalid


def read_json(text: str | bytes, name: str = "body", **how: Any) -> Any:
    """A value of JSON; `Invalid` for what is none, for NaN and Infinity, and half characters."""
    try:
        value = json.loads(text, parse_constant=_no_number, **how)
        if (b"\\u" if isinstance(text, bytes) else "\\u") in text:  # type: ignore[operator]
            json.dumps(value, ensure_ascii=False, default=str).encode()
    except RecursionError:
        raise Invalid(f"{name}: it is not JSON that can be read: it has too many levels.") from None
    except ValueError as error:
        raise Invalid(f"{name}: it is not JSON: {str(error)[:200]}.") from None
    return value


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")
