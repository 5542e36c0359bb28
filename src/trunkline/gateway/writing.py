"""Values as JSON text: a number that Python keeps exactly is written with all its digits."""

from __future__ import annotations

import json
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any


class _Exact(Exception):
    """There is a number that only the slow way can write."""


def written(value: Any) -> str:
    """A value as JSON, without line breaks."""
    try:
        return _quick.encode(value)
    except _Exact:
        return _slowly(value)


def _unknown(value: Any) -> Any:
    if isinstance(value, Decimal):
        raise _Exact
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_quick = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_unknown)


def _slowly(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{encode_basestring(name)}:{_slowly(each)}" for name, each in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_slowly, value))}]"
    return format(value, "f") if isinstance(value, Decimal) else _quick.encode(value)
