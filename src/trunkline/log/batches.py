"""Record batches of format 1: how messages become the columns of one row (`decoding` reads them).

Pure: no I/O; the Arrow side is in `arrow`, which is imported only where it is asked for. ::

    value_ends   n+1 int32, first 0       an Arrow offsets buffer
    payload      the values, one after the other
    value_valid  bit i (lowest first) is set when value i is there; NULL = all are
    key_ends, keys, key_valid             the same for keys; NULL = no message has a key
    deltas       n int32                  offset - base_offset of what compaction left
    event_ids    n int64                  ids of forwarded events
    headers      a JSON array of n objects or nulls, UTF-8

Integers are little endian. With codec `ZSTD` each of payload, value_ends, keys, key_ends and
headers is a zstd frame of its own that states the size of its content; the rest stays plain.
"""

from __future__ import annotations

import json
import re
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from hashlib import sha256
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import zstandard

from trunkline.core.errors import Invalid, TooLarge
from trunkline.core.words import counted

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

FORMAT = 1
LARGEST_COLUMN = 2**30 - 1  # a bytea of Postgres stays below 1 GB

_ZSTD_LEVEL = 1
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class Codec(IntEnum):
    """How the large columns of a batch are compressed."""

    NONE = 0
    ZSTD = 1

    @classmethod
    def parse(cls, name: str) -> Codec:
        """The codec that is called ``none`` or ``zstd``."""
        try:
            return cls[name.upper()]
        except (KeyError, AttributeError):
            known = ", ".join(map(str, cls))
            raise Invalid(f"unknown codec {name!r}.", hint=f"Expected one of: {known}.") from None

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """The columns of a batch that is ready to be appended."""

    n: int
    codec: Codec
    value_ends: bytes
    payload: bytes
    value_valid: bytes | None
    key_ends: bytes | None
    keys: bytes | None
    key_valid: bytes | None
    headers: bytes | None
    size: int
    """Bytes of all values and keys before compression."""


@dataclass(
    slots=True
)  # not frozen: that would make each row that is fetched cost four times as much
class StoredBatch:
    """A batch as it was fetched; ``skip`` and ``take`` say which of its messages were asked for."""

    format: int
    codec: int
    incarnation: int
    base_offset: int
    last_offset: int
    n: int
    at: datetime
    value_ends: bytes
    payload: bytes
    value_valid: bytes | None
    key_ends: bytes | None
    keys: bytes | None
    key_valid: bytes | None
    deltas: bytes | None
    event_ids: bytes | None
    headers: bytes | None
    skip: int
    take: int

    @property
    def size(self) -> int:
        """Bytes of its values, keys and headers as they are stored."""
        return len(self.payload) + len(self.keys or b"") + len(self.headers or b"")


def pack(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Mapping[str, Any] | None] | None = None,
    codec: Codec = Codec.NONE,
) -> PackedBatch:
    """Pack messages into the columns of one batch."""
    _check_lengths(values, keys, headers)
    return pack_encoded(values, keys=keys, headers=encoded_headers(headers), codec=codec)


def pack_encoded(
    values: Sequence[bytes | None],
    *,
    keys: Sequence[bytes | None] | None = None,
    headers: bytes | None = None,
    codec: Codec = Codec.NONE,
) -> PackedBatch:
    """Pack messages whose headers are JSON already."""
    keyless = keys is None or all(key is None for key in keys)
    return _packed(
        _join("value", values),
        None if keys is None or keyless else _join("key", keys),
        headers,
        n=len(values),
        codec=codec,
    )


def pack_arrow(
    values: pa.Array | pa.ChunkedArray,
    *,
    keys: pa.Array | pa.ChunkedArray | None = None,
    headers: pa.Array | pa.ChunkedArray | Sequence[Mapping[str, Any] | None] | None = None,
    codec: Codec = Codec.NONE,
) -> PackedBatch:
    """Pack Arrow arrays of binary or text without touching a message.

    Headers come as mappings or as an Arrow array of JSON texts; these are read one by one.
    """
    from trunkline.log import arrow

    _check_lengths(values, keys, headers)
    keyless = keys is None or keys.null_count == len(keys)
    if headers is not None and hasattr(headers, "to_pylist"):
        headers = [_header(text) for text in headers.to_pylist()]
    return _packed(
        arrow.join("value", values),
        None if keyless else arrow.join("key", keys),
        encoded_headers(headers),
        n=len(values),
        codec=codec,
    )


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key: 8 bytes of its sha256 as a big endian number, modulo."""
    if partitions < 1:
        raise Invalid(f"expected at least one partition, got {partitions}.")
    return int.from_bytes(sha256(key).digest()[:8], "big") % partitions


def route(keys: Sequence[bytes | None], partitions: int, *, keyless: int = 0) -> list[list[int]]:
    """For every partition the indices of its keys in order; ``keyless`` takes those without one."""
    if not 0 <= keyless < partitions:
        raise Invalid(f"partition {keyless} is not one of {partitions}.")
    if partitions == 1:
        return [list(range(len(keys)))]
    routes: list[list[int]] = [[] for _ in range(partitions)]
    distinct = [key for key in dict.fromkeys(keys) if key is not None]
    hashes = struct.iter_unpack(">Q24x", b"".join([sha256(key).digest() for key in distinct]))
    by_key: dict[bytes | None, list[int]] = {
        key: routes[number % partitions] for key, (number,) in zip(distinct, hashes, strict=True)
    }
    by_key[None] = routes[keyless]
    for index, key in enumerate(keys):
        by_key[key].append(index)
    return routes


class Joined(NamedTuple):
    """Values or keys on their way in, not yet compressed."""

    ends: bytes
    data: bytes | memoryview
    valid: bytes | None


def _check_lengths(values: Any, keys: Any, headers: Any) -> None:
    if not len(values):
        raise Invalid("the batch is empty.", hint="Append at least one message.")
    for name, column in (("keys", keys), ("headers", headers)):
        if column is not None and len(column) != len(values):
            came = counted(len(column), name.removesuffix("s"))
            raise Invalid(f"{counted(len(values), 'value')} came with {came}.")


def _join(name: str, cells: Sequence[bytes | None]) -> Joined:
    try:
        # A None makes this fail, which is cheaper for everybody else than looking for one.
        bounds = tuple(accumulate(map(len, cells), initial=0))  # type: ignore[arg-type]
        check_largest(name, bounds[-1])
        data = b"".join(cells)  # type: ignore[arg-type]
    except TypeError:
        if all(cell is not None for cell in cells):
            raise _not_bytes(name, cells) from None
        joined = _join(name, [b"" if cell is None else cell for cell in cells])
        return joined._replace(valid=_bitmap(cell is not None for cell in cells))
    if bounds[-1] != len(data):
        raise _not_bytes(name, cells)
    return Joined(struct.pack(f"<{len(bounds)}i", *bounds), data, None)


def _not_bytes(name: str, cells: Sequence[Any]) -> Invalid:
    kinds = {type(cell).__name__ for cell in cells if not isinstance(cell, bytes | None)}
    return Invalid(f"a {name} is of type {' or '.join(sorted(kinds))}, expected bytes.")


def _bitmap(present: Iterable[bool]) -> bytes:
    digits = "".join(["1" if bit else "0" for bit in present])
    return int(digits[::-1], 2).to_bytes((len(digits) + 7) // 8, "little")


def _header(text: Any) -> Any:
    try:
        return None if text is None else json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"headers {text!r:.80} are not JSON: {error}.") from None


def header_text(header: Mapping[str, Any] | None) -> str | None:
    """Headers of one message as JSON."""
    return None if header is None else _json(header)


def encoded_headers(headers: Sequence[Mapping[str, Any] | None] | None) -> bytes | None:
    """Headers of messages as a JSON array; None when no message has any."""
    if headers is None or all(header is None for header in headers):
        return None
    for index, header in enumerate(headers):
        if header is not None and not (
            isinstance(header, Mapping) and all(isinstance(key, str) for key in header)
        ):
            raise Invalid(f"headers {index} are {header!r:.80}, expected a mapping of text.")
    try:
        text = _json([header if header is None else dict(header) for header in headers])
        encoded = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"headers are not JSON: {error}.") from None
    if "\\u0000" in text and _NUL.search(text):
        raise Invalid("headers have a character NUL in a text, which jsonb cannot hold.")
    return encoded


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def check_largest(name: str, size: int) -> None:
    """Refuse what no column can hold, before memory is spent on it."""
    if size > LARGEST_COLUMN:
        raise TooLarge(
            f"the {name}s of a batch have {size} bytes, the limit is {LARGEST_COLUMN}.",
            hint="Append smaller batches.",
        )


def _packed(
    values: Joined, keys: Joined | None, headers: bytes | None, *, n: int, codec: Codec
) -> PackedBatch:
    check_largest("header", len(headers or b""))
    deflate = _context.compressor.compress if codec is Codec.ZSTD else bytes
    return PackedBatch(
        n=n,
        codec=codec,
        value_ends=deflate(values.ends),
        payload=deflate(values.data),
        value_valid=values.valid,
        key_ends=None if keys is None else deflate(keys.ends),
        keys=None if keys is None else deflate(keys.data),
        key_valid=None if keys is None else keys.valid,
        headers=None if headers is None else deflate(headers),
        size=len(values.data) + (0 if keys is None else len(keys.data)),
    )


class _Context(threading.local):
    """What compresses: dear to make, and not to be shared by threads."""

    @cached_property
    def compressor(self) -> zstandard.ZstdCompressor:
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL)


_context = _Context()
