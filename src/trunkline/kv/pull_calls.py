"""What instances of a parade ask of each other, and note of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trunkline.core.calls import Call, many, nothing, one, scalar
from trunkline.kv.models import Applied, Copied, Digest, Exported, Hello, Pulled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID


def hello(instance: str, word: Mapping[str, Any]) -> Call[Hello]:
    """What another instance says of itself to one that pulls from it and says what it knows."""
    return Call(
        "kv_hello",
        {"instance": instance, "word": json.dumps(word)},
        one(Hello),
        safe_to_repeat=True,
        types={"word": "jsonb"},
    )


def witness(instance: str, word: Mapping[str, Any]) -> Call[bool]:
    """Compare this copy with what another instance knows of it; whether it went back."""
    return Call(
        "kv_witness",
        {"instance": instance, "word": json.dumps(word)},
        scalar,
        safe_to_repeat=True,
        types={"word": "jsonb"},
    )


def copy_begin(instance: str, origin: int) -> Call[int]:
    """Begin to copy everything; the position after which changes are read."""
    return Call(
        "kv_copy_begin",
        {"instance": instance, "origin": origin},
        scalar,
        safe_to_repeat=True,
        types={"origin": "bigint"},
    )


def copy(
    instance: str, origin: int, after: tuple[str, str], *, scope: str, max_keys: int
) -> Call[Copied]:
    """A part of everything."""
    return Call(
        "kv_copy",
        {
            "instance": instance,
            "origin": origin,
            "after_namespace": after[0],
            "after_key": after[1],
            "scope": scope,
            "max_keys": max_keys,
        },
        one(Copied),
        safe_to_repeat=True,
        json_text=True,
        types={"origin": "bigint"},
    )


def export(
    instance: str, origin: int, after: int, *, scope: str, max_changes: int
) -> Call[Exported]:
    """What changed after a position."""
    return Call(
        "kv_export",
        {
            "instance": instance,
            "origin": origin,
            "after_position": after,
            "scope": scope,
            "max_changes": max_changes,
        },
        one(Exported),
        safe_to_repeat=True,
        json_text=True,
        types={"origin": "bigint", "after_position": "bigint"},
    )


def confirm(instance: str, origin: int, up_to: int) -> Call[None]:
    """Say that everything up to a position is committed here."""
    return Call(
        "kv_confirm",
        {"instance": instance, "origin": origin, "up_to": up_to},
        nothing,
        safe_to_repeat=True,
        types={"origin": "bigint", "up_to": "bigint"},
    )


def pulled(instance: str) -> Call[Pulled]:
    """How far this instance has pulled from another."""
    return Call("kv_pulled", {"instance": instance}, one(Pulled), safe_to_repeat=True)


def apply(
    instance: str,
    epoch: int,
    up_to: int,
    state: Mapping[str, Any],
    states: str,
    *,
    read_at: int,
) -> Call[Applied]:
    """Take in what another instance has told, and note how far."""
    return Call(
        "kv_apply",
        {
            "instance": instance,
            "epoch": epoch,
            "up_to": up_to,
            "state": json.dumps(state),
            "states": states,
            "read_at": read_at,
        },
        one(Applied),
        safe_to_repeat=True,
        types={
            "epoch": "bigint",
            "up_to": "bigint",
            "state": "jsonb",
            "states": "jsonb",
            "read_at": "bigint",
        },
    )


def heard(
    instance: str,
    *,
    origin: int | None = None,
    head: int | None = None,
    is_level: bool = False,
    skew: timedelta | None = None,
    error: str | None = None,
) -> Call[None]:
    """Note what is known of another instance."""
    return Call(
        "kv_heard",
        {
            "instance": instance,
            "origin": origin,
            "head": head,
            "is_level": is_level,
            "skew": skew,
            "error": error,
        },
        nothing,
        safe_to_repeat=True,
        types={"origin": "bigint", "head": "bigint", "skew": "interval"},
    )


def begin_anew(origin: int) -> Call[int]:
    """Begin another life of this copy, unless that was done already."""
    return Call(
        "kv_begin_anew",
        {"origin": origin},
        scalar,
        safe_to_repeat=True,
        types={"origin": "bigint"},
    )


def make_whole() -> Call[bool]:
    """Remove what was deleted meanwhile, when all peers have been copied; whether that is so."""
    return Call("kv_make_whole", {}, scalar, safe_to_repeat=True)


def digest(buckets: int) -> Call[list[Digest]]:
    """A number for every part of all living keys."""
    return Call("kv_digest", {"buckets": buckets}, many(Digest), safe_to_repeat=True)


def bucket(instance: str, origin: int, buckets: int, chosen: Sequence[int]) -> Call[str]:
    """All keys of some parts."""
    return Call(
        "kv_bucket",
        {"instance": instance, "origin": origin, "buckets": buckets, "chosen": list(chosen)},
        scalar,
        safe_to_repeat=True,
        json_text=True,
        types={"origin": "bigint", "chosen": "int[]"},
    )


def release() -> Call[bool]:
    """Apply what waits for its time or for a lock; whether there is more that can be applied."""
    return Call("kv_release", {}, scalar, safe_to_repeat=True)


def take(resource: str, process: UUID) -> Call[int | None]:
    """Own what only one process may do: the epoch, or None when another does it."""
    return Call(
        "owner_take", {"resource": resource, "process": process}, scalar, safe_to_repeat=True
    )
