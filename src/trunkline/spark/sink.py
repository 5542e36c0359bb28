"""What all sinks share: tasks write to a side, the driver commits once.

A `Target` knows where rows go; `BatchSink` and `StreamSink` are its two faces towards Spark. Tasks
only stage. The driver's commit is one transaction which a batch passes once, whatever happens to
tasks, the driver, or the answer of the commit. An abort removes what was staged and nothing else:
Spark calls it also after a commit that took effect and then raised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.taskcontext import TaskContext

from trunkline.core.errors import Invalid, TrunklineError
from trunkline.spark.connection import plain_errors
from trunkline.spark.ledger import Batch
from trunkline.spark.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Self

    import pyarrow as pa

_QUERY = "sql.streaming.queryId"
_RUN = "spark.jobGroup.id"  # of a streaming query: the id of the run
_OF_SPARK = {"checkpointlocation", "queryname"}  # that Spark adds to the options of a stream


class SinkOptions(Options):
    """Options of every sink."""

    app_id: str | None = Field(default=None, min_length=1)
    """The name under which a repeated batch is recognised; by default the id of the query, which
    is in its checkpoint. A batch write without it is never recognised."""
    batch_id: int | None = Field(default=None, ge=0)
    """The number of a batch write under ``appId``, else 0; pass that of ``foreachBatch``."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        return super().parse({n: v for n, v in given.items() if n.lower() not in _OF_SPARK})


class Target(ABC):
    """Where the rows of a sink go. Pickled to tasks: it holds values only."""

    @abstractmethod
    def write(self, batches: Iterator[pa.RecordBatch]) -> Any:
        """In a task: put rows aside; the answer goes to `commit`. It is a dataclass with the fields
        ``digest``, ``query`` and ``run``, which the sink fills in."""

    @abstractmethod
    def commit(self, messages: Sequence[Any], batch: Batch) -> None:
        """On the driver: move what the tasks put aside, once."""

    def abort(self, messages: Sequence[Any]) -> None:
        """On the driver: a task or the commit failed. Messages of failed tasks are None."""


class BatchSink(DataSourceArrowWriter):
    """A target as ``df.write`` sees it."""

    def __init__(self, target: Target, options: SinkOptions):
        if options.batch_id is not None and options.app_id is None:
            raise Invalid("option batchId numbers the batches of an appId, and there is none.")
        self._target = target
        self._batch = Batch(options.app_id, options.batch_id or 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        return _write(self._target, iterator)

    def commit(self, messages: Sequence[Any]) -> None:
        with plain_errors():
            self._target.commit(messages, _known(self._batch, messages))

    def abort(self, messages: Sequence[Any]) -> None:
        with plain_errors():
            self._target.abort(messages)


class StreamSink(DataSourceStreamArrowWriter):
    """A target as ``df.writeStream`` sees it."""

    def __init__(self, target: Target, options: SinkOptions):
        if options.batch_id is not None:
            raise Invalid("option batchId is for batch writes: a stream numbers its batches.")
        self._target = target
        self._app = options.app_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Any:
        written = _write(self._target, iterator)
        if written.query is None:
            raise TrunklineError(
                f"Spark does not pass the id of the query ({_QUERY}) to its tasks, by which a batch"
                " is recognised.",
                hint="This sink was not tested with this version of Spark.",
            )
        return written

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        if not messages:
            return
        with plain_errors():
            batch = Batch(self._app or messages[0].query, batchId)
            self._target.commit(messages, _known(batch, messages))

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803
        with plain_errors():
            self._target.abort(messages)


def _write(target: Target, batches: Iterator[pa.RecordBatch]) -> Any:
    """In a task: write the rows; the answer says what they were and which query they are of."""
    from trunkline.spark.row_digest import RowDigest  # NumPy is slow to import

    digest = RowDigest()
    with plain_errors():
        written = target.write(digest.passing(batches))
    query = _property(_QUERY)
    return replace(written, digest=digest.value, query=query, run=query and _property(_RUN))


def _known(batch: Batch, messages: Sequence[Any]) -> Batch:
    """The batch with what its tasks say about it."""
    from trunkline.spark.row_digest import total

    digest = total([message.digest for message in messages])
    first = messages[0] if messages else None
    return replace(
        batch,
        digest=f"{digest:016x}",
        query=first and first.query,
        run=first and first.run,
    )


def _property(name: str) -> str | None:
    context = TaskContext.get()
    found: str | None = context.getLocalProperty(name) if context else None
    return found or None


def task_number() -> int:
    """The number of this task in its stage."""
    context = TaskContext.get()
    return context.partitionId() if context else 0
