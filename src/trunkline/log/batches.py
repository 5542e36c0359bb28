"""Record batches of format 1: how messages become the columns of one row, and come out again.

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

Nothing that was read is trusted: every length follows from ``n`` and from the ends and is checked
before a frame is given memory or a message is cut out, so a damaged row is an `Invalid`, never a
wrong message.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from hashlib import sha256
from io import BytesIO
from itertools import accumulate
from operator import sub
from typing import TYPE_CHECKING, Any, NamedTuple

import zstandard

from trunkline.core.errors import Invalid, TooLarge

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
    keyless = keys is None or all(key is None for key in keys)
    return _packed(
        _join("value", values),
        None if keys is None or keyless else _join("key", keys),
        _encoded_headers(headers),
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
        _encoded_headers(headers),
        n=len(values),
        codec=codec,
    )


def decode(row: StoredBatch) -> DecodedBatch:
    """Check and decompress a fetched row; its messages are made when they are asked for."""
    return DecodedBatch(_Content(row), skip=row.skip, take=row.take)


class DecodedBatch:
    """A window on a decompressed batch: ``take`` of its messages after the first ``skip``.

    Every list has one element per message of the window and is made when it is first asked for.
    """

    def __init__(self, content: _Content, *, skip: int, take: int):
        if skip < 0 or take < 0 or skip + take > content.n:
            raise Invalid(
                f"asked for {take} messages after the first {skip} of a batch of {content.n}."
            )
        self.skip = skip
        self.take = take
        self._content = content

    def __len__(self) -> int:
        return self.take

    def window(self, skip: int, take: int) -> DecodedBatch:
        """Another part of the same row, without decompressing it again."""
        return DecodedBatch(self._content, skip=skip, take=take)

    @property
    def n(self) -> int:
        """Messages in the whole row."""
        return self._content.n

    @property
    def base_offset(self) -> int:
        """Offset of the row's first message when it was written."""
        return self._content.base_offset

    @property
    def last_offset(self) -> int:
        """Offset of the row's last message when it was written."""
        return self._content.last_offset

    @property
    def incarnation(self) -> int:
        """Which life of the server wrote it."""
        return self._content.incarnation

    @property
    def at(self) -> datetime:
        """When it was appended."""
        return self._content.at

    @cached_property
    def offsets(self) -> list[int]:
        """Ascending; with holes where compaction took something away."""
        base = self.base_offset
        if self._content.deltas is None:
            return list(range(base + self.skip, base + self.skip + self.take))
        return [base + delta for delta in self._integers("i", self._content.deltas)]

    @cached_property
    def values(self) -> list[bytes | None]:
        """The messages; None is a tombstone."""
        return self._content.values.cells(self.skip, self.take)

    @cached_property
    def keys(self) -> list[bytes | None]:
        """None where a message has no key."""
        column = self._content.keys
        return [None] * self.take if column is None else column.cells(self.skip, self.take)

    @cached_property
    def headers(self) -> list[dict[str, Any] | None]:
        """None where a message has no headers."""
        headers = self._content.headers
        return [None] * self.take if headers is None else headers[self.skip : self.skip + self.take]

    @cached_property
    def event_ids(self) -> list[int | None]:
        """None where a message was appended and not forwarded."""
        ids = self._content.event_ids
        return [None] * self.take if ids is None else [*self._integers("q", ids)]

    @property
    def columns(self) -> tuple[Column, Column | None]:
        """Values and keys of the whole row."""
        return self._content.values, self._content.keys

    @property
    def deltas(self) -> bytes | None:
        """What is to be added to `base_offset`, of the whole row, where compaction left holes."""
        return self._content.deltas

    def header_texts(self) -> list[str | None] | None:
        """Headers as JSON; None where no message of the row has any."""
        return None if self._content.headers is None else [*map(_header_text, self.headers)]

    @property
    def event_ids_buffer(self) -> bytes | None:
        """The event ids of the whole row as int64, when it has any."""
        return self._content.event_ids

    def to_arrow(self) -> pa.Table:
        """Columns offset, timestamp, key, value and headers (JSON text); no value is copied."""
        from trunkline.log import arrow

        return arrow.table([self])

    def _integers(self, kind: str, column: bytes) -> tuple[int, ...]:
        return struct.unpack_from(
            f"<{self.take}{kind}", column, self.skip * struct.calcsize(f"<{kind}")
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
            raise Invalid(f"{len(values)} values came with {len(column)} {name}.")


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


def _header_text(header: Mapping[str, Any] | None) -> str | None:
    return None if header is None else _json(header)


def _encoded_headers(headers: Sequence[Mapping[str, Any] | None] | None) -> bytes | None:
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
    check_largest("header", len(encoded))
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
    deflate = _contexts.compressor.compress if codec is Codec.ZSTD else bytes
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


class _Contexts(threading.local):
    """zstd contexts: dear to make, and not to be shared by threads."""

    @cached_property
    def compressor(self) -> zstandard.ZstdCompressor:
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL)

    @cached_property
    def decompressor(self) -> zstandard.ZstdDecompressor:
        return zstandard.ZstdDecompressor()


_contexts = _Contexts()


@dataclass(frozen=True)
class Column:
    """Values or keys on their way out, checked."""

    ends: bytes
    data: bytes
    valid: bytes | None

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """The ends as integers."""
        return struct.unpack(f"<{len(self.ends) // 4}i", self.ends)

    def cells(self, skip: int, take: int) -> list[bytes | None]:
        """The messages of a window."""
        starts, ends = self.bounds[skip : skip + take], self.bounds[skip + 1 : skip + take + 1]
        # Reading one length after the other is a fifth faster than slicing the bytes.
        stream = BytesIO(self.data)
        stream.seek(self.bounds[skip])
        cells: list[bytes | None] = [*map(stream.read, map(sub, ends, starts))]
        if self.valid is None:
            return cells
        digits = f"{int.from_bytes(self.valid, 'little'):0{8 * len(self.valid)}b}"[::-1]
        present = zip(cells, digits[skip : skip + take], strict=True)
        return [cell if digit == "1" else None for cell, digit in present]


class _Content:
    """A whole row, checked and decompressed; shared by all windows on it."""

    def __init__(self, row: StoredBatch):
        codec = _codec(row)
        self.n = row.n
        self.base_offset = row.base_offset
        self.last_offset = row.last_offset
        self.incarnation = row.incarnation
        self.at = row.at
        self.deltas = _deltas(row)
        self.event_ids = row.event_ids
        if row.event_ids is not None:
            _check_size("event_ids", len(row.event_ids), 8 * row.n)
        self.values = _column(
            ("value_ends", row.value_ends), ("payload", row.payload), row.value_valid, row.n, codec
        )
        self.keys: Column | None = None
        if row.keys is not None or row.key_ends is not None or row.key_valid is not None:
            self.keys = _column(
                ("key_ends", row.key_ends), ("keys", row.keys), row.key_valid, row.n, codec
            )
        self._headers = None if row.headers is None else _plain("headers", row.headers, codec)

    @cached_property
    def headers(self) -> list[dict[str, Any] | None] | None:
        if self._headers is None:
            return None
        try:
            headers = json.loads(self._headers.decode())
        except (ValueError, RecursionError) as error:
            raise _damaged("headers", f"is not JSON: {error}") from None
        if not isinstance(headers, list) or len(headers) != self.n:
            raise _damaged("headers", f"is not an array of {self.n} elements")
        if not all(header is None or isinstance(header, dict) for header in headers):
            raise _damaged("headers", "has an element that is neither an object nor null")
        return headers


def _codec(row: StoredBatch) -> Codec:
    if row.format != FORMAT:
        raise Invalid(
            f"the batch has format {row.format}, this version reads {FORMAT}.",
            hint="Upgrade the client.",
        )
    if row.n < 0 or (row.deltas is None and row.n != row.last_offset - row.base_offset + 1):
        raise _damaged("n", f"is {row.n} for offsets {row.base_offset} to {row.last_offset}")
    try:
        return Codec(row.codec)
    except ValueError:
        raise Invalid(f"the batch has codec {row.codec}.", hint="Upgrade the client.") from None


def _deltas(row: StoredBatch) -> bytes | None:
    if row.deltas is None:
        return None
    _check_size("deltas", len(row.deltas), 4 * row.n)
    numbers = struct.unpack(f"<{row.n}i", row.deltas)
    if sorted(set(numbers)) != list(numbers):
        raise _damaged("deltas", "does not ascend")
    if numbers and not 0 <= numbers[0] <= numbers[-1] <= row.last_offset - row.base_offset:
        raise _damaged("deltas", f"leaves offsets {row.base_offset} to {row.last_offset}")
    return row.deltas


def _column(
    ends: tuple[str, bytes | None],
    data: tuple[str, bytes | None],
    valid: bytes | None,
    n: int,
    codec: Codec,
) -> Column:
    plain_ends = _plain(*ends, codec, size=4 * (n + 1))
    if not _ascend_from_zero(plain_ends):
        raise _damaged(ends[0], "does not ascend from 0")
    (size,) = struct.unpack_from("<i", plain_ends, 4 * n)
    if valid is not None:
        _check_size(f"validity of {data[0]}", len(valid), (n + 7) // 8)
    return Column(plain_ends, _plain(*data, codec, size=size), valid)


def _ascend_from_zero(ends: bytes) -> bool:
    if numpy := sys.modules.get("numpy"):  # with those who use Arrow, and ten times as fast
        numbers = numpy.frombuffer(ends, "<i4")
        return bool(numbers[0] == 0 and (numbers[1:] >= numbers[:-1]).all())
    bounds = struct.unpack(f"<{len(ends) // 4}i", ends)
    return bounds[0] == 0 and sorted(bounds) == list(bounds)


def _plain(name: str, column: bytes | None, codec: Codec, *, size: int | None = None) -> bytes:
    """The column without compression; ``size`` is what it must come to where that is known."""
    if column is None:
        raise _damaged(name, "is missing")
    if codec is Codec.NONE:
        _check_size(name, len(column), size)
        return bytes(column)
    try:
        # A frame promises its size; we give memory only to a promise that fits.
        promised = zstandard.frame_content_size(column)
        _check_size(name, promised, size)
        if not 0 <= promised <= LARGEST_COLUMN:
            raise _damaged(name, f"is a frame of {promised} bytes")
        plain = _contexts.decompressor.decompress(column, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise _damaged(name, f"is not a whole zstd frame: {error}") from None
    _check_size(name, len(plain), size)
    return plain


def _check_size(name: str, size: int, expected: int | None) -> None:
    if expected is not None and size != expected:
        raise _damaged(name, f"has {size} bytes, expected {expected}")


def _damaged(column: str, what: str) -> Invalid:
    return Invalid(f"the batch is damaged: {column} {what}.", details={"column": column})
