"""`replay`: what a lake, an archive or a topic holds, into a topic or into keys and values."""

from __future__ import annotations

from contextlib import contextmanager
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
from trunkline.spark.lake_path import insist_on_absolute
from trunkline.spark.session import append

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from trunkline.spark.jobs.job import Progress

logger = telemetry.get_logger(__name__)

_MESSAGE = ("key", "value", "headers")
_PAIR = ("key", "value")
_NO_TEXT = "MALFORMED_CHARACTER_CODING"  # as Spark calls it
_LATEST = (("timestamp", "offset"), ("position",))
"""Columns of an origin that tell which row of a key is the last; those come first that are there.

A key may have changed its partition, so offsets alone do not tell; the times of a partition never
go back."""


@dataclass(frozen=True)
class Replayed:
    """What a replay did."""

    origin: str
    to: str
    rows: int
    """Written, or with ``dry_run`` found; 0 when a replay of this name was before."""


def replay(
    spark: SparkSession,
    origin: str,
    to: str,
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
    """Write the rows of ``origin`` to a topic, or to ``kv:NAMESPACE``, once per ``app_id``.

    ``origin`` is ``topic:NAME``, ``delta:PATH`` or ``parquet:PATH`` with a column ``value`` and, if
    they are there, ``key`` and ``headers``. ``since`` and ``until`` are times, ``where`` is a
    condition in SQL over the columns of the origin, such as ``offset between 1 and 500``. Messages
    of one key stay in their order; ``keep_partitions`` keeps the partition of each as well.

    Keys need a column ``key``, and values that are JSON; a key whose value is null is deleted. Of
    several rows of a key the last counts, by ``timestamp`` and ``offset`` or by ``position``;
    without these columns such rows are refused. All keys are put by one transaction.
    """
    dsn = connection.locate(dsn)
    with connection.plain_errors():
        rows = _origin(spark, origin, dsn, _moment("since", since), _moment("until", until))
        if where is not None:
            rows = _where(rows, where)
        namespace = _namespace(to)
        if namespace is None:
            rows = _messages(rows, origin, keep_partitions=keep_partitions)
            sink, options = "trunkline.log", {"topic": to}
        else:
            _refuse_partitions(to, keep_partitions=keep_partitions)
            rows, latest = _pairs(rows, origin)
            sink, options = "trunkline.kv", {"namespace": namespace, "orderBy": ",".join(latest)}
        if dry_run:
            found = rows.count()
        elif app_id is not None and connection.db(dsn).run(spark_calls.written(app_id, 0)):
            found = 0
            logger.warning("nothing is written: a replay of this name was before", app=app_id)
        else:
            progress(0, None, f"{origin} to {to}")
            named = {} if app_id is None else {"appId": app_id}
            with _only_texts(origin):
                found = _write(rows, sink, {"dsn": dsn, **options, **named})
        progress(found, found, f"{origin} to {to}")
        return Replayed(origin, to, found)


def _write(rows: DataFrame, sink: str, options: dict[str, str]) -> int:
    """Write the rows, and count them on their way; without rows the name stays free."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    if rows.isEmpty():
        return 0
    counted = Observation()
    append(rows.observe(counted, f.count(f.lit(1)).alias("rows")), sink, options)
    return int(counted.get["rows"])


@contextmanager
def _only_texts(origin: str) -> Iterator[None]:
    """Say of bytes that are no text what they are, and how to do without them."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if _NO_TEXT not in str(error):
            raise
        raise Invalid(
            f"{origin} has a key or a value that is no text in UTF-8.",
            hint="Leave such rows out, with where: is_valid_utf8(string(key)).",
        ) from None


def check(
    dsn: str,
    origin: str,
    to: str,
    *,
    since: str | None = None,
    until: str | None = None,
    keep_partitions: bool = False,
) -> None:
    """Refuse what makes no sense, and topics and namespaces that are not there; needs no Spark."""
    kind, place = _kind_and_place(origin)
    for name, text in (("since", since), ("until", until)):
        _moment(name, text)
    topics = [place] if kind == "topic" else []
    namespace = _namespace(to)
    if namespace is None:
        topics.append(to)
    else:
        _refuse_partitions(to, keep_partitions=keep_partitions)
        nothing = spark_calls.kv_put(
            [], [], namespace, as_text=False, policy=None, ttl=None, order_by=()
        )
        connection.db(dsn).run(nothing)
    if topics:
        connection.db(dsn).run(calls.ends(topics))


def _namespace(to: str) -> str | None:
    """The namespace that keys go to; None for a topic."""
    kind, colon, name = to.partition(":")
    if not colon:
        return None
    if kind != "kv" or not name:
        raise Invalid(f'a replay goes to a topic or to kv:NAMESPACE, got "{to}".')
    return name


def _refuse_partitions(to: str, *, keep_partitions: bool) -> None:
    if keep_partitions:
        raise Invalid(f"{to} has no partitions that could be kept.", hint="Topics have.")


def _messages(rows: DataFrame, origin: str, *, keep_partitions: bool) -> DataFrame:
    """The columns of messages, in order."""
    _need(rows, origin, "value")
    chosen = [name for name in _MESSAGE if name in rows.columns]
    if keep_partitions:
        _need(rows, origin, "partition")
        chosen.append("partition")
    return _in_order(rows).select(*chosen)


def _pairs(rows: DataFrame, origin: str) -> tuple[DataFrame, tuple[str, ...]]:
    """Keys and values as texts, and the columns that tell which row of a key is the last."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BinaryType

    _need(rows, origin, *_PAIR)
    latest = next((some for some in _LATEST if set(some) <= set(rows.columns)), ())
    texts = [
        f.decode(name, "UTF-8").alias(name)
        if isinstance(rows.schema[name].dataType, BinaryType)
        else f.col(name)
        for name in _PAIR
    ]
    return rows.select(*texts, *latest), latest


def _need(rows: DataFrame, origin: str, *names: str) -> None:
    for name in names:
        if name not in rows.columns:
            raise Invalid(f"{origin} has no column {name}.", hint=f"It has: {rows.columns}.")


def _kind_and_place(origin: str) -> tuple[str, str]:
    kind, _, place = origin.partition(":")
    if not place or kind not in ("topic", "delta", "parquet"):
        raise Invalid(f'an origin is topic:NAME, delta:PATH or parquet:PATH, got "{origin}".')
    if kind != "topic":
        insist_on_absolute(place)
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
        rows = _parquet(spark, origin, place)
    for bound, sign in ((since, ">="), (until, "<")):
        if bound is not None:
            _need(rows, origin, "timestamp")
            rows = rows.where(f"timestamp {sign} timestamp '{bound.isoformat()}'")
    return rows


def _parquet(spark: SparkSession, origin: str, place: str) -> DataFrame:
    from pyspark.errors import PySparkException

    try:
        return spark.read.parquet(place)
    except PySparkException as error:
        raise Invalid(f"{origin} cannot be read: {_said(error)}") from None


def _where(rows: DataFrame, condition: str) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return rows.where(condition)
    except AnalysisException as error:
        columns = ", ".join(rows.columns)
        raise Invalid(f"where: {_said(error)}", hint=f"Its columns: {columns}.") from None


def _said(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _in_order(rows: DataFrame) -> DataFrame:
    """Each partition of the origin as one task, in the order of its offsets."""
    if "offset" not in rows.columns or "partition" not in rows.columns:
        return rows
    return rows.repartition("partition").sortWithinPartitions("partition", "offset")
