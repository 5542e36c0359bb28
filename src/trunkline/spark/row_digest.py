"""`RowDigest`: a digest of rows that depends neither on their order nor on how tasks share them.

Every row becomes a 64-bit hash of its values; the digest is the sum of these hashes. Tasks add up
their rows, the driver adds up its tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

_NULL = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
_MODULUS = 1 << 64


class RowDigest:
    """Adds up the rows that pass."""

    def __init__(self) -> None:
        self.value = 0

    def passing(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; each is added before it is yielded."""
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: pa.RecordBatch) -> None:
        rows = np.zeros(batch.num_rows, np.uint64)
        for column in batch.columns:
            rows = _joined(rows, _hashes(column))
        self.value = total([self.value, int(rows.sum(dtype=np.uint64))])


def total(digests: list[int]) -> int:
    """The digest of several tasks' rows."""
    return sum(digests) % _MODULUS


def _hashes(column: pa.Array) -> np.ndarray[Any, Any]:
    """A hash per value; null has one of its own."""
    kind = column.type
    if isinstance(column, pa.ExtensionArray):
        return _hashes(column.storage)
    if pa.types.is_null(kind):
        return np.full(len(column), _NULL)
    if pa.types.is_struct(kind):
        found = np.zeros(len(column), np.uint64)
        for child in column.flatten():
            found = _joined(found, _hashes(child))
    elif pa.types.is_map(kind):
        return _hashes(column.cast(pa.list_(pa.struct([kind.key_field, kind.item_field]))))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        found = _of_lists(column)
    else:
        found = _of_scalars(column)
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), found, _NULL)


def _of_lists(column: pa.Array) -> np.ndarray[Any, Any]:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(starts, lengths)
    elements = _joined(_hashes(column.flatten()), within.astype(np.uint64))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(elements, dtype=np.uint64)])
    return _joined(lengths.astype(np.uint64), sums[ends] - sums[starts])


def _of_scalars(column: pa.Array) -> np.ndarray[Any, Any]:
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif not _is_variable(kind):
        word = _WORDS.get(kind.bit_width)
        column = column.view(pa.from_numpy_dtype(word)) if word else column.cast(pa.string())
    if not _is_variable(column.type):
        return _mixed(pc.fill_null(column, 0).to_numpy().astype(np.uint64))
    from pandas.util import hash_array  # slow to import, and loaded by the Arrow driver anyway

    texts = pc.fill_null(column, b"" if pa.types.is_binary(column.type) else "")
    hashed: np.ndarray[Any, Any] = hash_array(
        texts.to_numpy(zero_copy_only=False), categorize=False
    )
    return hashed


def _is_variable(kind: pa.DataType) -> bool:
    """Whether values are texts or bytes."""
    try:
        return bool(kind.bit_width < 0)
    except ValueError:
        return True


def _joined(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """One hash of two, in which their places differ."""
    return _mixed(left * _FACTORS[1] + right + _NULL)


def _mixed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Every bit of a value in every bit of the result (the finalizer of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * _FACTORS[0]
    values = (values ^ (values >> np.uint64(27))) * _FACTORS[1]
    mixed: np.ndarray[Any, Any] = values ^ (values >> np.uint64(31))
    return mixed
