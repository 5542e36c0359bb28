"""What tubes ask of the database: one builder per SQL function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trunkline.core.calls import Call, as_json, many, nothing, one, scalar
from trunkline.core.errors import Invalid
from trunkline.core.notes import Note
from trunkline.tube.models import (
    Attachment,
    DownstreamRow,
    Entry,
    LaneShare,
    LaneStats,
    Listed,
    Outline,
    Parked,
    Reach,
    Tube,
    Version,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from trunkline.tube.models import KeyId

_KEYS = {"keys": "text[]"}


def ensure(tube: str, *, lanes: int | None = None, condition: str | None = None) -> Call[Tube]:
    """Make a tube, or change its lanes and condition; None keeps what is there."""
    return Call(
        "tube_ensure",
        {"tube": tube, "lanes": lanes, "condition": condition},
        one(Tube),
        safe_to_repeat=True,
    )


def drop(tube: str, *, force: bool = False) -> Call[None]:
    """Drop a tube and detach all its tables."""
    return Call("tube_drop", {"tube": tube, "force": force}, nothing)


def attach(
    tube: str,
    relation: str,
    *,
    shard: int | str | None = None,
    condition: str | None = None,
    key_columns: Sequence[str] | None = None,
    on_error: str | None = None,
) -> Call[Attachment]:
    """Capture the changes of a table into a tube; None keeps what an attached one has."""
    return Call(
        "tube_attach",
        {
            "tube": tube,
            "relation": relation,
            "shard": None if shard is None else str(shard),
            "condition": condition,
            "key_columns": None if key_columns is None else list(key_columns),
            "on_error": on_error,
        },
        one(Attachment),
        safe_to_repeat=True,
        types={"relation": "regclass", "key_columns": "text[]"},
    )


def detach(tube: str, relation: str) -> Call[bool]:
    """Stop capturing a table; what is queued is still delivered."""
    return Call(
        "tube_detach",
        {"tube": tube, "relation": relation},
        scalar,
        safe_to_repeat=True,
        types={"relation": "regclass"},
    )


def list_tubes(relation: str | None = None) -> Call[list[Listed]]:
    """Tubes and their tables."""
    return Call(
        "tube_list",
        {"relation": relation},
        many(Listed),
        safe_to_repeat=True,
        types={"relation": "regclass"},
    )


def stats(tube: str | None = None) -> Call[list[LaneStats]]:
    """Lanes of tubes: what waits, since when, who works on it."""
    return Call("tube_stats", {"tube": tube}, many(LaneStats), safe_to_repeat=True)


def touch(
    tube: str,
    relation: str | None,
    keys: Sequence[object],
    *,
    payload: Any = None,
    op: str = "T",
    shard: int | None = None,
) -> Call[int]:
    """Touch keys by hand: they are delivered as if their rows had changed."""
    return Call(
        "tube_touch",
        {
            "tube": tube,
            "relation": relation,
            "keys": [key_text(key) for key in keys],
            "payload": None if payload is None else as_json(payload, of="payload"),
            "op": op,
            "shard": shard,
        },
        scalar,
        safe_to_repeat=True,
        types={**_KEYS, "relation": "regclass", "payload": "jsonb"},
    )


def insert(
    tubes: Sequence[str],
    query: str,
    *,
    shard: int,
    op: str = "B",
    relation: str | None = None,
    chunk: int = 20_000,
) -> Call[int]:
    """Touch every key that a query returns, in one or several tubes."""
    return Call(
        "tube_insert",
        {
            "tubes": list(tubes),
            "query": query,
            "shard": shard,
            "op": op,
            "relation": relation,
            "chunk": chunk,
        },
        scalar,
        types={"tubes": "text[]", "relation": "regclass"},
    )


def tick() -> Call[int]:
    """Number the entries that were committed since the last tick."""
    return Call("tube_tick", {}, scalar, safe_to_repeat=True)


def flush() -> Call[int]:
    """Number everything that is committed by now; the highest position."""
    return Call("tube_flush", {}, scalar, safe_to_repeat=True)


def head() -> Call[int]:
    """The highest position that is numbered."""
    return Call("tube_head", {}, scalar, safe_to_repeat=True)


def reach() -> Call[Reach]:
    """The life of the server, and the highest position that is numbered in it."""
    return Call("_tube_reach", {}, one(Reach), safe_to_repeat=True)


def read(
    tube: str,
    lane: int,
    priority: int,
    from_position: int,
    to_position: int,
    *,
    max_entries: int = 1_000,
) -> Call[list[Entry]]:
    """Entries of a lane in a range of positions, in order."""
    return Call(
        "tube_read",
        {
            "tube": tube,
            "lane": lane,
            "priority": priority,
            "from_position": from_position,
            "to_position": to_position,
            "max_entries": max_entries,
        },
        many(Entry),
        safe_to_repeat=True,
    )


def outline(
    tube: str, lane: int, priority: int, first: int, last: int, *, max_entries: int = 1000
) -> Call[list[Outline]]:
    """What lies in a range of positions of a lane, without the keys."""
    return Call(
        "tube_outline",
        {
            "tube": tube,
            "lane": lane,
            "priority": priority,
            "from_position": first,
            "to_position": last,
            "max_entries": max_entries,
        },
        many(Outline),
        safe_to_repeat=True,
        types={"from_position": "bigint", "to_position": "bigint"},
    )


def join(tube: str, process: UUID, *, member: str = "") -> Call[list[LaneShare]]:
    """Take part in working a tube: the lanes that are yours."""
    return Call(
        "tube_join",
        {"tube": tube, "process": process, "member": member},
        many(LaneShare),
        safe_to_repeat=True,
    )


def leave(
    tube: str, process: UUID, *, member: str = "", lanes: Sequence[int] | None = None
) -> Call[None]:
    """Give lanes back, or leave the tube."""
    return Call(
        "tube_leave",
        {
            "tube": tube,
            "process": process,
            "member": member,
            "lanes": None if lanes is None else list(lanes),
        },
        nothing,
        safe_to_repeat=True,
        types={"lanes": "int[]"},
    )


def ack(
    tube: str, lane: int, epoch: int, *, live_up_to: int | None, backfill_up_to: int | None
) -> Call[None]:
    """Say that everything of a lane up to these positions is done."""
    return Call(
        "tube_ack",
        {
            "tube": tube,
            "lane": lane,
            "epoch": epoch,
            "live_up_to": live_up_to,
            "backfill_up_to": backfill_up_to,
        },
        nothing,
        safe_to_repeat=True,
    )


def park(
    tube: str,
    lane: int,
    epoch: int,
    *,
    attachment: int,
    shard: int,
    key: str,
    attempts: int,
    error: str,
) -> Call[None]:
    """Set a key aside that keeps failing."""
    return Call(
        "tube_park",
        {
            "tube": tube,
            "lane": lane,
            "epoch": epoch,
            "attachment": attachment,
            "shard": shard,
            "key": key,
            "attempts": attempts,
            "error": Note(error),
        },
        nothing,
        safe_to_repeat=True,
    )


def parked(tube: str | None = None) -> Call[list[Parked]]:
    """Keys that were set aside, with their error."""
    return Call("tube_parked", {"tube": tube}, many(Parked), safe_to_repeat=True)


def unpark(tube: str, keys: Sequence[object] | None = None) -> Call[int]:
    """Try parked keys again."""
    return Call(
        "tube_unpark",
        {"tube": tube, "keys": None if keys is None else [key_text(key) for key in keys]},
        scalar,
        safe_to_repeat=True,
        types=_KEYS,
    )


def enrich(
    attachment: int, keys: Sequence[str], *, shards: Sequence[int] | None = None
) -> Call[dict[str, str | None]]:
    """The rows behind keys as JSON text; None for what is gone, or now in another shard."""
    return Call(
        "tube_enrich_text",
        {
            "attachment": attachment,
            "keys": list(keys),
            "shards": None if shards is None else list(shards),
        },
        lambda rows: {row["key"]: row["document"] for row in rows},
        safe_to_repeat=True,
        binary=True,
        types={**_KEYS, "shards": "int[]"},
    )


def query(text: str, keys: Sequence[str]) -> Call[dict[str, str | None]]:
    """What a stored query gives for keys, as JSON text."""
    return Call(
        "_tube_query",
        {"query": text, "keys": list(keys)},
        lambda rows: {row["key"]: row["document"] for row in rows},
        safe_to_repeat=True,
        types=_KEYS,
    )


def moved(attachment: int, keys: Sequence[str], shards: Sequence[int]) -> Call[list[str]]:
    """The keys whose row is in another shard than the one given."""
    return Call(
        "_tube_moved",
        {"attachment": attachment, "keys": list(keys), "shards": list(shards)},
        lambda rows: [row["key"] for row in rows],
        safe_to_repeat=True,
        types={**_KEYS, "shards": "int[]"},
    )


def mirror(attachment: int, ids: Sequence[KeyId], *, documents: str) -> Call[None]:
    """Write the rows behind keys into a table of documents in the same database."""
    return Call(
        "_tube_mirror",
        {
            "attachment": attachment,
            "keys": _array([key for _, _, key in ids]),
            "shards": f"{{{','.join([str(shard) for _, shard, _ in ids])}}}",
            "documents": documents,
        },
        nothing,
        types={**_KEYS, "shards": "int[]", "documents": "regclass"},
    )


def version() -> Call[Version]:
    """The version of what is read after this."""
    return Call(
        "tube_version",
        {},
        lambda rows: Version.parse(rows[0]["generation"], rows[0]["lsn"]),
        safe_to_repeat=True,
    )


def downstream(tube: str, kind: str | None, options: Mapping[str, Any] | None = None) -> Call[None]:
    """Say where a tube goes, so that ``trunkline up`` can run it."""
    return Call(
        "tube_downstream",
        {"tube": tube, "kind": kind, "options": as_json(dict(options or {}), of="options")},
        nothing,
        safe_to_repeat=True,
        types={"options": "jsonb"},
    )


def downstreams() -> Call[list[DownstreamRow]]:
    """Which tubes go where."""
    return Call("tube_downstreams", {}, many(DownstreamRow), safe_to_repeat=True)


def key_text(key: object) -> str:
    """A key as tubes hold it: the text of the column, or a JSON array for several."""
    if isinstance(key, tuple | list):
        return json.dumps(list(key), ensure_ascii=False, separators=(", ", ": "), default=str)
    if key is None or isinstance(key, bytes | bytearray | memoryview | dict):
        raise Invalid(
            f"a key is text, a number, or a tuple for several columns, got {key!r:.100}.",
            hint="Give the text that the column has for it.",
        )
    return str(key)


def _array(items: Iterable[str]) -> str:
    """Texts, of which the server knows no NUL, as the text of an array: faster than one by one."""
    text = "\0".join(items).replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
    return f'{{"{text}"}}'
