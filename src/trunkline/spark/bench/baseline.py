"""What people use without us: Spark's JDBC source, or rows one by one through psycopg."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.conninfo import conninfo_to_dict
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)

from trunkline.spark.bench.ground import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

_FETCH = 10_000
_KINDS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
}


class Baseline(ABC):
    """Reads and appends tables, two tasks at a time."""

    name: str

    @abstractmethod
    def read(self, spark: SparkSession, table: str, columns: Sequence[str]) -> DataFrame:
        """These columns of a table of messages, a task per partition."""

    @abstractmethod
    def append(self, rows: DataFrame, table: str) -> None:
        """Rows into a table; whoever repeats it writes them twice."""


def find_baseline(spark: SparkSession, dsn: str) -> Baseline:
    """JDBC where its driver is loaded and the server listens on TCP, else psycopg."""
    loaded = "postgresql" in spark.sparkContext.getConf().get("spark.driver.extraClassPath", "")
    parts = conninfo_to_dict(dsn)
    host = str(parts.get("host", ""))
    if not loaded or not host or host.startswith("/"):
        return Tuples(dsn)
    place = f"{host}:{parts.get('port', 5432)}/{parts['dbname']}"
    known = {name: str(value) for name, value in parts.items() if name in {"user", "password"}}
    return Jdbc(f"jdbc:postgresql://{place}?reWriteBatchedInserts=true", known)


@dataclass(frozen=True)
class Jdbc(Baseline):
    """Spark's own source with Postgres' driver, and the settings that make it quick."""

    url: str
    account: dict[str, str]
    name = "JDBC"

    def _options(self, table: str) -> dict[str, str]:
        driver = "org.postgresql.Driver"
        return {"url": self.url, "driver": driver, "dbtable": table, **self.account}

    def read(self, spark: SparkSession, table: str, columns: Sequence[str]) -> DataFrame:
        cut = {"partitionColumn": "partition", "lowerBound": "0", "upperBound": str(PARTITIONS)}
        cut |= {"numPartitions": str(PARTITIONS), "fetchsize": str(_FETCH)}
        reader = spark.read.format("jdbc").options(**self._options(table), **cut)
        return reader.load().select(*columns)

    def append(self, rows: DataFrame, table: str) -> None:
        options = {**self._options(table), "batchsize": "10000"}
        rows.write.format("jdbc").options(**options).mode("append").save()


@dataclass(frozen=True)
class Tuples(Baseline):
    """A Python source as one writes it first."""

    dsn: str
    name = "psycopg rows, as JDBC's driver or TCP is missing"

    def read(self, spark: SparkSession, table: str, columns: Sequence[str]) -> DataFrame:
        spark.dataSource.register(TupleSource)
        options = {"dsn": self.dsn, "table": table, "columns": ",".join(columns)}
        return spark.read.format(TupleSource.name()).options(**options).load()

    def append(self, rows: DataFrame, table: str) -> None:
        rows.sparkSession.dataSource.register(TupleSource)
        options = {"dsn": self.dsn, "table": table}
        rows.write.format(TupleSource.name()).options(**options).mode("append").save()


class TupleSource(DataSource):
    """Rows of a table as tuples."""

    @classmethod
    def name(cls) -> str:
        return "trunkline.bench.tuples"

    def schema(self) -> str:
        return ", ".join(f"`{name}` {_KINDS[name]}" for name in self.options["columns"].split(","))

    def reader(self, schema: StructType) -> TupleReader:
        return TupleReader(self.options["dsn"], self.options["table"], schema.fieldNames())

    def writer(self, schema: StructType, overwrite: bool) -> TupleWriter:  # noqa: FBT001 - Spark's
        return TupleWriter(self.options["dsn"], self.options["table"])


class TupleReader(DataSourceReader):
    """A cursor of the server for every partition."""

    def __init__(self, dsn: str, table: str, columns: Sequence[str]):
        self._dsn, self._table, self._columns = dsn, table, columns

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        import psycopg

        listed = ", ".join(f'"{name}"' for name in self._columns)
        query = f"select {listed} from {self._table} where partition = {partition.value}"
        with (
            psycopg.connect(self._dsn) as connection,
            connection.cursor("rows", binary=True) as cursor,
        ):
            cursor.itersize = _FETCH
            yield from cursor.execute(query.encode())


class TupleWriter(DataSourceWriter):
    """COPY, a row after the other."""

    def __init__(self, dsn: str, table: str):
        self._dsn, self._table = dsn, table

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        import psycopg

        with psycopg.connect(self._dsn) as connection, connection.cursor() as cursor:
            with cursor.copy(f"copy {self._table} from stdin".encode()) as copy:
                for row in iterator:
                    copy.write_row([_bytes(cell) for cell in row])
            connection.commit()
        return WriterCommitMessage()


def _bytes(cell: Any) -> Any:
    return bytes(cell) if isinstance(cell, bytearray) else cell
