"""`Reading`: what the readers of every source have; `arrow_rows`: what a function answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from trunkline.core.execution import translated
from trunkline.spark import connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from trunkline.spark.columns import Selection
    from trunkline.spark.options import Options

OptionsT = TypeVar("OptionsT", bound="Options")


class Reading(Generic[OptionsT]):
    """Options, and where the database is."""

    def __init__(self, options: OptionsT):
        self._options = options
        self._dsn: str | None = None

    @property
    def dsn(self) -> str:
        """Where the database is."""
        if self._dsn is None:
            self._dsn = connection.locate(self._options.dsn)
        return self._dsn


class StreamReading(Reading[OptionsT]):
    """The driver of a stream locates the database; tasks are told, and get nothing that is open."""

    stays: ClassVar[tuple[str, ...]] = ("_arrivals",)
    """Attributes that do not travel to tasks."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **dict.fromkeys(self.stays), "_dsn": self.dsn}


def arrow_rows(dsn: str, selected: Selection, source: str) -> Iterator[pa.RecordBatch]:
    """What a function of ours in FROM answers; what it refuses comes with its code and details."""
    query = f"select {selected.sql} from {source}"
    with connection.adbc(dsn) as arrow, arrow.cursor() as cursor:
        try:
            cursor.execute(query)
            batches = cursor.fetch_record_batch()
            found = next(batches, None)
        except OSError:  # the Arrow driver has lost the code and the details of what was refused
            with translated(), connection.db(dsn).connection() as asking:
                asking.execute(query.encode())
            raise
        while found is not None:
            yield selected.conform(found)
            found = next(batches, None)
