"""What Spark's sources and sinks ask of the database: one builder per SQL function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.core.calls import Call, many, scalar
from trunkline.spark.attached import Attached

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.spark.ledger import Batch


def stage(columns: Sequence[str], types: Sequence[str]) -> Call[int]:
    """Make a staging table for rows; returns its number."""
    return Call("spark_stage", {"columns": list(columns), "types": list(types)}, scalar)


def stage_batches() -> Call[int]:
    """Make a staging table for record batches; returns its number."""
    return Call("spark_stage_batches", {}, scalar)


def unstage(numbers: Sequence[int]) -> Call[int]:
    """Drop staging tables; returns how many there were."""
    return Call(
        "spark_unstage",
        {"numbers": list(numbers)},
        scalar,
        safe_to_repeat=True,
        types={"numbers": "bigint[]"},
    )


def commit(batch: Batch, rows: int, target: str) -> Call[bool]:
    """Note a batch in the ledger; True when it is to be written in this transaction."""
    return Call(
        "spark_commit",
        {
            "app": batch.app,
            "batch": batch.number,
            "rows": rows,
            "target": target,
            "query": batch.query,
            "digest": batch.digest,
            "run": batch.run,
        },
        scalar,
        types={
            "batch": "bigint",
            "rows": "bigint",
            "query": "text",
            "digest": "text",
            "run": "text",
        },
    )


def written(app: str, batch: int) -> Call[bool]:
    """Whether the ledger has a batch."""
    return Call(
        "spark_written",
        {"app": app, "batch": batch},
        scalar,
        safe_to_repeat=True,
        types={"batch": "bigint"},
    )


def append(numbers: Sequence[int], messages: Sequence[int]) -> Call[list[tuple[str, int]]]:
    """Move staged record batches into the log; returns the partitions that grew."""
    return Call(
        "spark_append",
        {"numbers": list(numbers), "messages": list(messages)},
        lambda rows: [(row["topic"], row["partition"]) for row in rows],
        types={"numbers": "bigint[]", "messages": "bigint[]"},
    )


def publish(numbers: Sequence[int], counts: Sequence[int]) -> Call[int]:
    """Publish staged rows as events; returns how many."""
    return Call(
        "spark_publish",
        {"numbers": list(numbers), "counts": list(counts)},
        scalar,
        types={"numbers": "bigint[]", "counts": "bigint[]"},
    )


def kv_put(
    numbers: Sequence[int],
    counts: Sequence[int],
    namespace: str,
    *,
    as_text: bool,
    policy: str | None,
    ttl: str | None,
    order_by: Sequence[str],
) -> Call[int]:
    """Put staged rows into the key-value store; returns how many keys."""
    return Call(
        "spark_kv_put",
        {
            "numbers": list(numbers),
            "counts": list(counts),
            "namespace": namespace,
            "as_text": as_text,
            "policy": policy,
            "ttl": ttl,
            "order_by": list(order_by),
        },
        scalar,
        types={
            "numbers": "bigint[]",
            "counts": "bigint[]",
            "policy": "text",
            "ttl": "interval",
            "order_by": "text[]",
        },
    )


def touch(
    numbers: Sequence[int],
    counts: Sequence[int],
    tube: str,
    *,
    relation: str | None,
    op: str,
    shard: int | None,
) -> Call[int]:
    """Touch the keys of staged rows in a tube; returns how many."""
    return Call(
        "spark_touch",
        {
            "numbers": list(numbers),
            "counts": list(counts),
            "tube": tube,
            "relation": relation,
            "op": op,
            "shard": shard,
        },
        scalar,
        types={
            "numbers": "bigint[]",
            "counts": "bigint[]",
            "relation": "regclass",
            "shard": "int",
        },
    )


def attached(tube: str, relation: str | None = None) -> Call[list[Attached]]:
    """The tables of a tube, or one of them."""
    return Call(
        "_spark_attached", {"tube": tube, "relation": relation}, many(Attached), safe_to_repeat=True
    )


def row_bytes(relation: str) -> Call[int]:
    """How many bytes a row of a table has, about; 0 where nobody knows."""
    return Call("_spark_row_bytes", {"relation": relation}, scalar, safe_to_repeat=True)


def next_batch(app: str) -> Call[int]:
    """The number that the next batch of an application has."""
    return Call("spark_next_batch", {"app": app}, scalar, safe_to_repeat=True)
