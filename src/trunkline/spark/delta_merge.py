"""Merge staged rows into a Delta table, one row per key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from trunkline.core.errors import Invalid
from trunkline.spark.columns import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.dataset as ds
    from deltalake import CommitProperties, DeltaTable


@dataclass(frozen=True)
class Staged:
    """Rows that are to be merged."""

    rows: pa.Table | pa.RecordBatchReader
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of keys that are numbers, the lowest and the highest."""


def staged(rows: ds.Dataset, keys: Sequence[str], order_by: Sequence[str]) -> Staged:
    """The staged rows, one per key. Only keys are held in memory unless some come twice."""
    found = rows.to_table(columns=list(keys))
    if empty := [name for name in keys if found.column(name).null_count]:
        raise Invalid(f"a row has a key ({', '.join(empty)}) that is null.")
    bounds = _bounds(found)
    if _one_row_per_key(found, keys):
        return Staged(rows.scanner().to_reader(), bounds)
    if not order_by:
        raise Invalid(
            f"two rows of one batch have the same key ({', '.join(keys)}).",
            hint="Which is last? Name the columns that tell it with the option orderBy,"
            " or keep one row per key.",
        )
    return Staged(last_rows(rows.to_table(), keys, order_by), bounds)


def last_rows(rows: pa.Table, keys: Sequence[str], order_by: Sequence[str]) -> pa.Table:
    """Of every key the row that is highest in the columns of the order; a draw is refused."""
    place = "_place"  # where a row stands after sorting: the highest of a key first, nulls last
    order = [(name, "ascending") for name in keys] + [(name, "descending") for name in order_by]
    rows = rows.take(pc.sort_indices(rows, sort_keys=order))
    if not _one_row_per_key(rows.select([*keys, *order_by]), [*keys, *order_by]):
        raise Invalid(
            f"two rows of one batch have the same key ({', '.join(keys)})"
            f" and the same {', '.join(order_by)}: which is last?"
        )
    numbered = rows.select(list(keys)).append_column(place, pa.array(range(rows.num_rows)))
    last = numbered.group_by(list(keys)).aggregate([(place, "min")])
    return rows.take(last.column(f"{place}_min"))


def _bounds(keys: pa.Table) -> dict[str, tuple[int, int]]:
    numbers = [field.name for field in keys.schema if pa.types.is_integer(field.type)]
    found = {name: pc.min_max(keys.column(name)).as_py() for name in numbers}
    return {
        name: (bounds["min"], bounds["max"])
        for name, bounds in found.items()
        if bounds["min"] is not None
    }


def _one_row_per_key(rows: pa.Table, keys: Sequence[str]) -> bool:
    return bool(rows.group_by(list(keys)).aggregate([]).num_rows == rows.num_rows)


def merge(
    table: DeltaTable,
    rows: Staged,
    properties: CommitProperties,
    keys: Sequence[str],
    delete_flag: str | None,
    *,
    truncate: bool,
) -> None:
    columns = [name for name in rows.rows.schema.names if name != delete_flag]
    stays = f"s.{quoted(delete_flag)} is not true" if delete_flag else None
    equal = [f"t.{quoted(key)} = s.{quoted(key)}" for key in keys]
    # follows from the rest, and lets Delta leave files alone whose keys are all beyond
    within = [
        f"t.{quoted(key)} between {low} and {high}" for key, (low, high) in rows.bounds.items()
    ]
    # nothing of the table matches when it is to be emptied: all of it leaves, the rows come
    same = "false" if truncate else " and ".join(equal + within)
    merger = table.merge(
        rows.rows, same, source_alias="s", target_alias="t", commit_properties=properties
    )
    if truncate:
        merger = merger.when_not_matched_by_source_delete()
    else:
        if delete_flag:
            merger = merger.when_matched_delete(f"s.{quoted(delete_flag)} is true")
        if others := [name for name in columns if name not in keys]:
            merger = merger.when_matched_update(_values(others), stays)
    merger.when_not_matched_insert(_values(columns), stays).execute()


def _values(columns: Sequence[str]) -> dict[str, str]:
    return {quoted(name): f"s.{quoted(name)}" for name in columns}
