"""`PositionStream`: a stream that follows numbers without gaps, as events and changes have them.

A checkpoint holds the next number to read, the life of the server that gave it out, and what the
numbers belong to. One of another life, or of something else, is refused.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from trunkline.core.errors import Invalid, PositionTrimmed
from trunkline.spark import connection
from trunkline.spark.arrivals import Arrivals
from trunkline.spark.positions import EARLIEST, LATEST
from trunkline.spark.reading import OptionsT, StreamReading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.streaming.datasource import ReadLimit

_PATIENCE = 0.5  # seconds that a stream with nothing to read waits for a wake-up
_VERSION = 1


class Ends(Protocol):
    """Where reading may begin and ends now, and the life of the server."""

    @property
    def first_one(self) -> int: ...
    @property
    def last_one(self) -> int: ...
    @property
    def incarnation(self) -> int: ...


class PositionStream(StreamReading[OptionsT], DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on from where the checkpoint ends; wakes up when more is numbered."""

    def __init__(self, options: OptionsT):
        super().__init__(options)
        self._final: int | None = None
        self._newest: dict[str, Any] | None = None
        self._arrivals: Arrivals | None = None

    @abstractmethod
    def _ends(self, *, number: bool) -> Ends:
        """Where reading may begin and ends; what was committed by now is numbered first, if so."""

    @abstractmethod
    def _first(self, ends: Ends) -> int:
        """The first number to read of a stream that begins."""

    @abstractmethod
    def _plan(self, first: int, last: int) -> Sequence[InputPartition]:
        """Tasks for a range of numbers."""

    @abstractmethod
    def _belongs_to(self) -> dict[str, str | None]:
        """The options that say what is numbered."""

    @property
    @abstractmethod
    def _at_most(self) -> int | None:
        """Numbers that one micro-batch covers at most."""

    @property
    @abstractmethod
    def _woken_by(self) -> str:
        """How wake-ups begin."""

    def initialOffset(self) -> dict[str, Any]:
        with connection.plain_errors():
            ends = self._ends(number=True)
            return self._position(ends, self._first(ends))

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._at_most) if self._at_most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with connection.plain_errors():
            self._final = self._ends(number=True).last_one + 1

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with connection.plain_errors():
            ends = self._ends(number=True)
            begin = self._noted(start, ends)
            if ends.last_one < begin and self._final is None:
                self._wait()
                ends = self._ends(number=True)
            tip = ends.last_one + 1
            self._newest = self._position(ends, tip)
            if self._final is not None:
                tip = min(tip, self._final)
            if isinstance(limit, ReadMaxRows):
                tip = min(tip, self._reach(begin, tip, limit.max_rows))
            return self._position(ends, max(begin, tip))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._newest

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with connection.plain_errors():
            ends = self._ends(number=False)
            return self._plan(self._noted(start, ends), self._noted(end, ends) - 1)

    def stop(self) -> None:
        if self._arrivals:
            self._arrivals.close()

    def _reach(self, begin: int, tip: int, most: int) -> int:
        """Where a micro-batch of at most so many numbers ends; ``tip`` is where all of them do."""
        return min(tip, begin + most)

    def _wait(self) -> None:
        if self._arrivals is None:
            self._arrivals = Arrivals(self.dsn, [self._woken_by])
        self._arrivals.wait(_PATIENCE)

    def _position(self, ends: Ends, following: int) -> dict[str, Any]:
        return {
            "version": _VERSION,
            "incarnation": ends.incarnation,
            **self._belongs_to(),
            "next": following,
        }

    def _noted(self, noted: dict[str, Any], ends: Ends) -> int:
        """The number of a checkpoint; one of another source or history is refused."""
        mine = self._belongs_to()
        if noted.get("version") != _VERSION or {"next", *mine} - noted.keys():
            raise Invalid(
                f"the checkpoint has a position of another source: {json.dumps(noted)[:120]}."
            )
        for name, now in mine.items():
            if noted[name] != now:
                raise Invalid(
                    f"the checkpoint is of option {name} {noted[name] or 'none'},"
                    f" not of {now or 'none'}.",
                    hint="What it has read is something else: take a new checkpoint.",
                )
        following = int(noted["next"])
        if noted["incarnation"] != ends.incarnation or following > ends.last_one + 1:
            raise PositionTrimmed(
                f"position {following} was noted in life {noted['incarnation']} of the server;"
                f" this is life {ends.incarnation}, and ends at {ends.last_one}.",
                hint="The server was restored to an earlier state, or failed over. Start with a new"
                " checkpoint, with startingOffsets where the two histories part, and give the sink"
                " a new appId.",
            )
        return following


def resolve(option: str, text: str, ends: Ends, *, earliest: int) -> int:
    """The next position that an option means: a word (or Kafka's number for it), or a position."""
    named = {"earliest": EARLIEST, "latest": LATEST}
    try:
        position = named.get(text.lower()) or int(text)
    except ValueError:
        position = 0
    if position in {EARLIEST, LATEST}:
        return earliest if position == EARLIEST else ends.last_one + 1
    if position < 1:
        raise Invalid(f"{option} is neither earliest, latest nor a position: {text!r:.120}.")
    if position > ends.last_one + 1:
        raise Invalid(
            f"{option} is {position}, and the last position is {ends.last_one}.",
            hint="Say latest, or a position that is there.",
        )
    return position
