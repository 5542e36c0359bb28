"""`replay`: put messages into a topic again: from a lake, an archive or another topic."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.errors import Invalid
from trunkline.log import calls
from trunkline.spark import calls as spark_calls
from trunkline.spark import connection
from trunkline.spark.jobs.job import silent
from trunkline.spark.jobs.targets import DeltaTable
from trunkline.spark.session import append

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from trunkline.spark.jobs.job import Progress

logger = telemetry.get_logger(__name__)

_MESSAGE = ("key", "value", "headers")


@dataclass(frozen=True)
class Replayed:
    """What a replay did."""

    origin: str
    topic: str
    messages: int
    """Written, or with ``dry_run`` found; 0 when a replay of this name was before."""


def replay(
    spark: SparkSession,
    origin: str,
    topic: str,
    *,
    dsn: str | None = None,
    since: str | None = None,
    until: str | None = None,
    where: str | None = None,
    keep_partitions: bool = False,
    app_id: str | None = None,
    dry_run: bool = False,
    progress: Progress = silent,
) -> Replayed:
    """Append the messages of ``origin`` to a topic, once per ``app_id``.

    ``origin`` is ``topic:NAME``, ``delta:PATH`` or ``parquet:PATH`` with a column ``value`` and, if
    they are there, ``key`` and ``headers``. ``since`` and ``until`` are times, ``where`` is a
    condition in SQL over the columns of the origin, such as ``offset between 1 and 500``. Messages
    of one key stay in their order; ``keep_partitions`` keeps the partition of each as well.
    """
    dsn = connection.locate(dsn)
    with connection.plain_errors():
        rows = _origin(spark, origin, dsn, _moment("since", since), _moment("until", until))
        if where is not None:
            rows = _where(rows, where)
        if "value" not in rows.columns:
            raise Invalid(f"{origin} has no column value.", hint=f"It has: {rows.columns}.")
        chosen = [name for name in _MESSAGE if name in rows.columns]
        if keep_partitions:
            if "partition" not in rows.columns:
                raise Invalid(f"{origin} has no column partition that could be kept.")
            chosen.append("partition")
        ordered = _in_order(rows).select(*chosen)
        if dry_run:
            messages = ordered.count()
        elif app_id is not None and connection.db(dsn).run(spark_calls.written(app_id, 0)):
            messages = 0
            logger.warning("nothing is written: a replay of this name was before", app=app_id)
        else:
            progress(0, None, f"{origin} to {topic}")
            messages = _append(ordered, dsn, topic, app_id)
        progress(messages, messages, f"{origin} to {topic}")
        return Replayed(origin, topic, messages)


def _append(rows: DataFrame, dsn: str, topic: str, app_id: str | None) -> int:
    """Write the rows, and count them on their way; without rows the name stays free."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    if rows.isEmpty():
        return 0
    options = {"dsn": dsn, "topic": topic} | ({} if app_id is None else {"appId": app_id})
    counted = Observation()
    append(
        rows.observe(counted, f.count(f.lit(1)).alias("messages")),
        "trunkline.log",
        options,
    )
    return int(counted.get["messages"])


def check(
    dsn: str, origin: str, topic: str, *, since: str | None = None, until: str | None = None
) -> None:
    """Refuse what makes no sense, and topics that are not there; needs no Spark."""
    kind, place = _kind_and_place(origin)
    for name, text in (("since", since), ("until", until)):
        _moment(name, text)
    topics = [topic, place] if kind == "topic" else [topic]
    connection.db(dsn).run(calls.ends(topics))


def _kind_and_place(origin: str) -> tuple[str, str]:
    kind, _, place = origin.partition(":")
    if not place or kind not in ("topic", "delta", "parquet"):
        raise Invalid(f'an origin is topic:NAME, delta:PATH or parquet:PATH, got "{origin}".')
    return kind, place


def _moment(name: str, text: str | None) -> datetime | None:
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f'{name} is a time such as 2026-01-31T12:00:00Z, got "{text}".') from None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _origin(
    spark: SparkSession, origin: str, dsn: str, since: datetime | None, until: datetime | None
) -> DataFrame:
    kind, place = _kind_and_place(origin)
    if kind == "topic":
        options = {"dsn": dsn, "subscribe": place, "includeHeaders": "true"}
        if since:
            options["startingTimestamp"] = since.isoformat()
        if until:
            options["endingTimestamp"] = until.isoformat()
        return spark.read.format("trunkline.log").options(**options).load()
    if kind == "delta":
        rows = DeltaTable(place).read(spark)
        if rows is None:
            raise Invalid(f"there is no Delta table with rows in {place}.")
    else:
        rows = spark.read.parquet(place)
    for bound, sign in ((since, ">="), (until, "<")):
        if bound is not None:
            rows = rows.where(f"timestamp {sign} timestamp '{bound.isoformat()}'")
    return rows


def _where(rows: DataFrame, condition: str) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return rows.where(condition)
    except AnalysisException as error:
        said = str(error).strip().partition("\n")[0]
        raise Invalid(f"where: {said}", hint=f"Its columns: {', '.join(rows.columns)}.") from None


def _in_order(rows: DataFrame) -> DataFrame:
    """Each partition of the origin as one task, in the order of its offsets."""
    if "offset" not in rows.columns or "partition" not in rows.columns:
        return rows
    return rows.repartition("partition").sortWithinPartitions("partition", "offset")
