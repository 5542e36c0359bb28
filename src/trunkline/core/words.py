"""Numbers in sentences."""

from __future__ import annotations


def counted(n: int, one: str, many: str | None = None) -> str:
    """``1 key``, ``2 keys``; what is more than an s is said as ``many``."""
    return f"{n} {one if n == 1 else many or f'{one}s'}"
