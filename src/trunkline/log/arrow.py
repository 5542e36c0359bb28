"""Record batches from and to Arrow: no message is touched going in, none copied coming out."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from trunkline.core.errors import Invalid
from trunkline.log.batches import Joined, check_largest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.log.decoding import Column, DecodedBatch

_MOMENT = pa.timestamp("us", tz="UTC")

_TAKEN = (
    pa.types.is_binary,
    pa.types.is_string,
    pa.types.is_large_binary,
    pa.types.is_large_string,
    pa.types.is_fixed_size_binary,
    pa.types.is_null,
)


def check_type(name: str, array: pa.Array | pa.ChunkedArray) -> None:
    """Refuse what is neither binary nor text."""
    if not any(is_taken(array.type) for is_taken in _TAKEN):
        raise Invalid(f"the {name}s are an Arrow array of {array.type}, expected binary or string.")


def longest(name: str, array: pa.Array | pa.ChunkedArray) -> int:
    """The length of the longest value in bytes."""
    check_type(name, array)
    found: int | None = pc.max(pc.binary_length(array.cast(pa.large_binary()))).as_py()
    return found or 0


def join(name: str, array: pa.Array | pa.ChunkedArray) -> Joined:
    """Values or keys as the plain columns of a batch, whatever slice or chunks they come in."""
    check_type(name, array)
    if not pa.types.is_null(array.type):
        check_largest(name, pc.sum(pc.binary_length(array)).as_py() or 0)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    array = array.cast(pa.binary())
    valid = _bitmap(array) if array.null_count else None
    if valid is not None:
        array = array.fill_null(b"")  # what lies under a null is not ours to keep
    _, ends, data = array.buffers()
    bounds = pa.Array.from_buffers(pa.int32(), len(array) + 1, [None, ends], offset=array.offset)
    first, last = bounds[0].as_py(), bounds[-1].as_py()
    if bounds.offset or first:
        bounds = pc.subtract(bounds, bounds[0])
    return Joined(
        ends=bounds.buffers()[1].slice(0, 4 * len(bounds)).to_pybytes(),
        data=b"" if data is None else memoryview(data)[first:last],
        valid=valid,
    )


def _bitmap(array: pa.Array) -> bytes:
    """The validity bitmap of an array that may start in the middle of a byte."""
    n = len(array)
    first, shift = divmod(array.offset, 8)
    window = memoryview(array.buffers()[0])[first : first + (shift + n + 7) // 8]
    bits: int = int.from_bytes(window, "little") >> shift & ((1 << n) - 1)
    return bits.to_bytes((n + 7) // 8, "little")


def cells(column: Column | None, skip: int, take: int) -> pa.Array:
    """A window of values or keys; the buffers of the column are used as they are."""
    if column is None:
        return pa.nulls(take, pa.binary())
    valid = None if column.valid is None else pa.py_buffer(column.valid)
    buffers = [valid, pa.py_buffer(column.ends), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), take, buffers, offset=skip)


def offsets(base: int, deltas: bytes | None, skip: int, take: int) -> pa.Array:
    """The offsets of a window, with the holes that compaction left."""
    if deltas is None:
        return _ascending(base + skip, take)
    window = pa.Array.from_buffers(pa.int32(), take, [None, pa.py_buffer(deltas)], offset=skip)
    return pc.add(window.cast(pa.int64()), pa.scalar(base, pa.int64()))


def _ascending(first: int, n: int) -> pa.Array:
    if hasattr(pa, "arange"):  # since pyarrow 21
        return pa.arange(first, first + n)
    return pa.array(range(first, first + n), pa.int64())


def table(parts: Sequence[DecodedBatch]) -> pa.Table:
    """One row per message: offset, timestamp, key, value, headers.

    Values and keys are chunks, one per part, on the buffers that they came in.
    """
    n = sum(map(len, parts))
    values, keys = zip(*(part.columns for part in parts), strict=True)
    moments = pa.array([part.at for part in parts], _MOMENT)
    return pa.table(
        {
            "offset": numbers(parts),
            "timestamp": pa.chunked_array(
                [pa.repeat(moment, part.take) for moment, part in zip(moments, parts, strict=True)]
            ),
            "key": _chunks(keys, parts) if any(keys) else pa.nulls(n, pa.binary()),
            "value": _chunks(values, parts),
            "headers": _texts(parts, n),
        }
    )


def numbers(parts: Sequence[DecodedBatch]) -> pa.Array:
    """The offsets of batches that follow each other."""
    firsts = [part.base_offset + part.skip for part in parts]
    gapless = all(
        later == first + part.take
        for (first, later), part in zip(pairwise(firsts), parts, strict=False)
    )
    if gapless and all(part.deltas is None for part in parts):
        return _ascending(firsts[0], sum(map(len, parts)))
    return pa.concat_arrays(
        [offsets(part.base_offset, part.deltas, part.skip, part.take) for part in parts]
    )


def _chunks(columns: Sequence[Column | None], parts: Sequence[DecodedBatch]) -> pa.ChunkedArray:
    return pa.chunked_array(
        [cells(column, part.skip, part.take) for column, part in zip(columns, parts, strict=True)]
    )


def _texts(parts: Sequence[DecodedBatch], n: int) -> pa.Array:
    found = [part.header_texts() for part in parts]
    if not any(found):
        return pa.nulls(n, pa.string())
    told = [texts or [None] * part.take for texts, part in zip(found, parts, strict=True)]
    return pa.array([*chain.from_iterable(told)], pa.string())
