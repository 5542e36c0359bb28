"""What the key-value store asks of the database for those who use it: one builder per function."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trunkline.core.calls import Call, as_json, duration, made, many, one, scalar
from trunkline.core.errors import Invalid
from trunkline.kv.models import Ends, KvChange, KvEntry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

_KEYS = {"keys": "text[]"}


def get(key: str, *, namespace: str = "default", default: Any = None) -> Call[Any]:
    """The value of a key; ``default`` when it is not there.

    Another ``default`` than None tells that from a null that was put.
    """
    if default is None:
        return Call("kv_get", {"namespace": namespace, "key": key}, scalar, safe_to_repeat=True)
    return replace(
        get_many([key], namespace=namespace),
        shape=lambda rows: rows[0]["value"] if rows else default,
    )


def get_many(keys: Sequence[str], *, namespace: str = "default") -> Call[list[KvEntry]]:
    """Keys that live, of those that are named, with their versions."""
    return Call(
        "kv_get_many",
        {"namespace": namespace, "keys": list(keys)},
        many(KvEntry),
        safe_to_repeat=True,
        types=_KEYS,
    )


def put(
    key: str,
    value: Any,
    *,
    namespace: str = "default",
    policy: str | None = None,
    ttl: timedelta | None = None,
    if_version: str | None = None,
    stamp: int | None = None,
) -> Call[str]:
    """Put a value under a key: ``INSERT``, ``UPDATE`` or ``CONFLICT``.

    With ``if_version`` only if that is the version there is; ``""``: if there is none.
    """
    return Call(
        "kv_put",
        {
            "namespace": namespace,
            "key": key,
            "value": as_json(value, of="value"),
            "policy": policy,
            "ttl": duration("ttl", ttl),
            "if_version": if_version,
            "stamp": stamp,
        },
        scalar,
        safe_to_repeat=if_version is None and stamp is None,
        types={"value": "jsonb", "ttl": "interval", "stamp": "bigint"},
    )


def put_many(
    values: Mapping[str, Any],
    *,
    namespace: str = "default",
    policy: str | None = None,
    ttl: timedelta | None = None,
) -> Call[dict[str, str]]:
    """Put many values at once, in one transaction: an answer for each key."""
    for key in values:
        if not isinstance(key, str):
            raise Invalid(f"a key is text, got {key!r:.100}.")
    return Call(
        "kv_put_many",
        {
            "namespace": namespace,
            "keys": list(values),
            "payloads": [
                as_json(value, of=f"value of {key!r:.50}") for key, value in values.items()
            ],
            "policy": policy,
            "ttl": duration("ttl", ttl),
        },
        lambda rows: {row["key"]: row["answer"] for row in rows},
        safe_to_repeat=True,
        types={**_KEYS, "payloads": "jsonb[]", "ttl": "interval"},
    )


def delete(key: str, *, namespace: str = "default", if_version: str | None = None) -> Call[str]:
    """Delete a key, everywhere: ``UPDATE``, ``INSERT`` when it did not live, or ``CONFLICT``."""
    return Call(
        "kv_delete",
        {"namespace": namespace, "key": key, "if_version": if_version},
        scalar,
        safe_to_repeat=if_version is None,
    )


def patch_numeric(
    key: str,
    offsets: Mapping[str, Any],
    *,
    namespace: str = "default",
    policy: str | None = None,
    ttl: timedelta | None = None,
) -> Call[str]:
    """Add numbers to fields of a key: what zones add at the same time adds up.

    None removes a field; fields that are not named stay. A `Decimal` is added to the last digit.
    """
    return Call(
        "kv_patch_numeric",
        {
            "namespace": namespace,
            "key": key,
            "offsets": _offsets(offsets),
            "policy": policy,
            "ttl": duration("ttl", ttl),
        },
        scalar,
        types={"offsets": "jsonb", "ttl": "interval"},
    )


def _offsets(offsets: Mapping[str, Any]) -> str:
    """JSON with numbers as they are: to make floats of them would round."""
    parts = []
    for name, offset in dict(offsets).items():
        exact = isinstance(offset, Decimal) and offset.is_finite()
        number = f"{offset:f}" if exact else as_json(offset, of=f"offset of {name!r:.50}")
        parts.append(f"{as_json(str(name), of='name of a field')}: {number}")
    return f"{{{', '.join(parts)}}}"


def scan(
    prefix: str = "",
    *,
    namespace: str = "default",
    after_key: str = "",
    until_key: str | None = None,
    max_keys: int = 1000,
) -> Call[list[KvEntry]]:
    """Keys that live and begin with a prefix, in order."""
    return Call(
        "kv_scan",
        {
            "namespace": namespace,
            "prefix": prefix,
            "after_key": after_key,
            "max_keys": max_keys,
            "until_key": until_key,
        },
        many(KvEntry),
        safe_to_repeat=True,
        types={"until_key": "text"},
    )


def cuts(prefix: str = "", *, namespace: str = "default", parts: int = 2) -> Call[list[str]]:
    """Keys that cut a namespace into parts of about the same size."""
    return Call(
        "kv_cuts",
        {"namespace": namespace, "prefix": prefix, "parts": parts},
        lambda rows: [row["kv_cuts"] for row in rows],
        safe_to_repeat=True,
    )


def changes(
    after: int, *, prefix: str = "", namespace: str = "default", max_changes: int = 1000
) -> Call[tuple[list[KvChange], int]]:
    """Keys that changed after a position, and how far was read."""
    return Call(
        "kv_changes",
        {
            "namespace": namespace,
            "after_position": after,
            "prefix": prefix,
            "max_changes": max_changes,
        },
        _changes,
        safe_to_repeat=True,
        types={"after_position": "bigint"},
    )


def _changes(rows: list[dict[str, Any]]) -> tuple[list[KvChange], int]:
    return [made(KvChange, row) for row in rows[:-1]], rows[-1]["up_to"]


def head() -> Call[int]:
    """The highest position of a change that is numbered."""
    return Call("kv_head", {}, scalar, safe_to_repeat=True)


def ends() -> Call[Ends]:
    """Where following changes may begin and where it ends."""
    return Call("kv_ends", {}, one(Ends))


def tick() -> Call[int]:
    """Number the changes that were committed since the last tick."""
    return Call("kv_tick", {}, scalar, safe_to_repeat=True)
