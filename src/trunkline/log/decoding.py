"""Record batches on their way out: a fetched row, checked and decompressed, as messages.

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
from dataclasses import dataclass
from functools import cached_property, partial
from io import BytesIO
from itertools import repeat
from operator import sub
from typing import TYPE_CHECKING, Any

import zstandard

from trunkline.core.errors import Invalid
from trunkline.core.extras import needed_for
from trunkline.core.unread import Unread
from trunkline.log.batches import FORMAT, LARGEST_COLUMN, Codec, header_text
from trunkline.log.models import Message

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from trunkline.log.batches import StoredBatch

_message = partial(tuple.__new__, Message)  # `Message._make` without the steps in Python
_QUICK_ARROW = 26  # before, to_pylist() made every message in Python
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},]')


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
        """None where a message has no headers; what Python cannot hold is text under "unread"."""
        headers = self._content.headers
        return [None] * self.take if headers is None else headers[self.skip : self.skip + self.take]

    @cached_property
    def event_ids(self) -> list[int | None]:
        """None where a message was appended and not forwarded."""
        ids = self._content.event_ids
        return [None] * self.take if ids is None else [*self._integers("q", ids)]

    def messages(self, topic: str, partition: int) -> list[Message]:
        """Every message as a value of its own."""
        columns = zip(
            repeat(topic),
            repeat(partition),
            self.offsets,
            repeat(self.at),
            self.keys,
            self.values,
            self.headers,
            strict=False,
        )
        return [*map(_message, columns)]

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
        return None if self._content.headers is None else [*map(_text, self.headers)]

    @property
    def event_ids_buffer(self) -> bytes | None:
        """The event ids of the whole row as int64, when it has any."""
        return self._content.event_ids

    def to_arrow(self) -> pa.Table:
        """Columns offset, timestamp, key, value and headers (JSON text); no value is copied."""
        with needed_for("to_arrow()", "arrow"):
            from trunkline.log import arrow

        return arrow.table([self])

    def _integers(self, kind: str, column: bytes) -> tuple[int, ...]:
        return struct.unpack_from(
            f"<{self.take}{kind}", column, self.skip * struct.calcsize(f"<{kind}")
        )


class _Context(threading.local):
    """What decompresses: dear to make, and not to be shared by threads."""

    @cached_property
    def decompressor(self) -> zstandard.ZstdDecompressor:
        return zstandard.ZstdDecompressor()


_context = _Context()


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
        if _arrow_is_quicker():
            from trunkline.log import arrow

            made: list[bytes | None] = arrow.cells(self, skip, take).to_pylist()
            return made
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


def _arrow_is_quicker() -> bool:
    """Whether Arrow is loaded, and as new as what makes a list of bytes four times as fast."""
    loaded = sys.modules.get("pyarrow")
    return int(getattr(loaded, "__version__", "0").partition(".")[0]) >= _QUICK_ARROW


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
            headers = _headers(self._headers.decode())
        except ValueError as error:
            raise _damaged("headers", f"is not JSON: {error}") from None
        if not isinstance(headers, list) or len(headers) != self.n:
            raise _damaged("headers", f"is not an array of {self.n} elements")
        if not all(header is None or isinstance(header, dict) for header in headers):
            raise _damaged("headers", "has an element that is neither an object nor null")
        return headers


def _text(header: dict[str, Any] | None) -> str | None:
    unread = None if header is None else header.get("unread")
    return str(unread) if isinstance(unread, Unread) else header_text(header)


def _headers(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError):  # one that Python cannot hold must not hide the others
        return [_header(element) for element in _elements(text)]


def _header(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except (ValueError, RecursionError) as error:
        unread = Unread(text.strip())
        unread.reason = str(error)
        return {"unread": unread} if unread.startswith("{") else unread


def _elements(array: str) -> list[str]:
    """The texts of the elements of a JSON array, by its quotes, brackets and commas."""
    found: list[str] = []
    depth = begin = 0
    for mark in _MARKS.finditer(array):
        if mark[0] in "[{":
            depth += 1
            begin = mark.end() if depth == 1 else begin
        elif mark[0] in "]}":
            depth -= 1
        if depth == 0 or (depth == 1 and mark[0] == ","):
            found.append(array[begin : mark.start()])
            begin = mark.end()
    if depth:
        raise ValueError("a bracket is not closed")
    return found


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
        plain = _context.decompressor.decompress(column, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise _damaged(name, f"is not a whole zstd frame: {error}") from None
    _check_size(name, len(plain), size)
    return plain


def _check_size(name: str, size: int, expected: int | None) -> None:
    if expected is not None and size != expected:
        raise _damaged(name, f"has {size} bytes, expected {expected}")


def _damaged(column: str, what: str) -> Invalid:
    return Invalid(f"the batch is damaged: {column} {what}.", details={"column": column})
