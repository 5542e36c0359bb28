"""Messages as services send them: JSON with repeated names and values that differ."""

from __future__ import annotations

import json
from random import Random

_STATES = ("created", "paid", "packed", "shipped", "delivered", "returned")
_WORDS = tuple(
    "please leave the parcel at the back door or with the neighbour if nobody answers the bell"  # noqa: SIM905
    " because the front gate stays closed on weekdays and the driver cannot see the number".split()
)


def make_messages(n: int, *, size: int, seed: int = 1) -> list[bytes]:
    """``n`` JSON texts, each cut to exactly ``size`` bytes; the same for the same seed.

    zstd shrinks a batch of them about threefold, as it does with real events.
    """
    source = Random(seed)  # noqa: S311 - repeatable, not secret
    return [_message(source, size) for _ in range(n)]


def make_keys(n: int, *, seed: int = 1) -> list[bytes]:
    """Keys of which some come again."""
    source = Random(seed)  # noqa: S311 - repeatable, not secret
    return [b"customer-%06d" % source.randrange(100_000) for _ in range(n)]


def _message(source: Random, size: int) -> bytes:
    fields = {
        "order": source.randrange(10**9),
        "customer": source.randrange(10**6),
        "state": source.choice(_STATES),
        "amount": source.randrange(10**6) / 100,
        "at": f"2031-05-{source.randrange(1, 29):02}T{source.randrange(24):02}:17:42Z",
    }
    text = json.dumps(fields)
    while len(text) < size:
        text += " " + source.choice(_WORDS)
    return text[:size].encode()
