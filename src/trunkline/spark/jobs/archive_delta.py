"""The Delta table of a topic's archive: one transaction adds the files of some segments."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from trunkline.core.errors import Conflict
from trunkline.log.archive import SCHEMA
from trunkline.spark.jobs.archive_folder import incarnation_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trunkline.spark.jobs.archive import Copied


def add_to_delta(
    location: str, copies: Sequence[Copied], *, incarnation: int, manifest: Callable[[], set[str]]
) -> None:
    """Add files to the table, in place of what a run that died added for the same offsets.

    `Conflict` when somebody else archives the same partitions, or when the table holds these
    offsets of another history of the server.
    """
    table = _table(location)
    stale = _stale(table, copies)
    if stale & manifest():
        raise _late(location)
    if foreign := {path for path in stale if incarnation_of(path) != incarnation}:
        raise Conflict(
            f"{location} holds the same offsets from another history: {sorted(foreign)[0]}.",
            hint="The server was restored or cloned: archive to another location.",
        )
    ends: dict[int, int] = {}
    for copy in copies:
        ends[copy.segment.partition] = copy.segment.last_offset
    now = int(1000 * time.time())
    try:
        table.create_write_transaction(
            [
                *(_add(copy, now) for copy in copies),
                *(RemoveAction(path, data_change=True, deletion_timestamp=now) for path in stale),
            ],
            "append",
            SCHEMA,
            commit_properties=CommitProperties(
                # a transaction of the same partition that was committed meanwhile refuses ours
                app_transactions=[
                    Transaction(f"trunkline.archive/{partition}", last)
                    for partition, last in ends.items()
                ]
            ),
        )
    except CommitFailedError as error:
        raise _late(location) from error


def delta_files(location: str) -> set[str]:
    """The files that the table consists of now."""
    return {action["path"] for action in _actions(_table(location))}


def _late(location: str) -> Conflict:
    return Conflict(
        f"another run archived the same offsets to {location}.",
        hint="What this one wrote is not part of the archive. Start it again.",
    )


def _table(location: str) -> DeltaTable:
    try:
        return DeltaTable(location)
    except TableNotFoundError:
        return DeltaTable.create(
            location,
            SCHEMA,
            mode="ignore",
            name=location.rpartition("/")[2],
            configuration={"delta.dataSkippingStatsColumns": "partition,offset,timestamp"},
        )


def _stale(table: DeltaTable, copies: Sequence[Copied]) -> set[str]:
    """Files of the table with offsets that are being added."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for copy in copies:
        offsets = (copy.segment.first_offset, copy.segment.last_offset)
        ranges.setdefault(copy.segment.partition, []).append(offsets)
    return {
        action["path"]
        for action in _actions(table)
        for first, last in ranges.get(action["min.partition"], ())
        if action["min.offset"] <= last and action["max.offset"] >= first
    }


def _actions(table: DeltaTable) -> list[dict[str, Any]]:
    import pyarrow as pa

    rows: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    return rows


def _add(copy: Copied, now: int) -> AddAction:
    segment, file = copy.segment, copy.file
    moments = [moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for moment in (file.first_at, file.last_at)]
    lowest = {"partition": segment.partition, "offset": segment.first_offset}
    highest = {"partition": segment.partition, "offset": segment.last_offset}
    stats = {
        "numRecords": file.messages,
        "minValues": lowest | {"timestamp": moments[0]},
        "maxValues": highest | {"timestamp": moments[1]},
        "nullCount": {"partition": 0, "offset": 0, "timestamp": 0},
    }
    return AddAction(
        path=file.path,
        size=file.bytes,
        partition_values={},
        modification_time=now,
        data_change=True,
        stats=json.dumps(stats),
    )
