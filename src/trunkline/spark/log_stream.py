"""`LogStreamReader`: topics as a stream that goes on where its checkpoint ends."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from trunkline.core import telemetry
from trunkline.core.errors import Invalid, PositionTrimmed
from trunkline.log import calls, group_calls
from trunkline.spark import connection, plan
from trunkline.spark.arrivals import Arrivals
from trunkline.spark.log_options import LogOptions
from trunkline.spark.log_reading import LogPartition, LogReading, tips
from trunkline.spark.plan import Range
from trunkline.spark.positions import Place, Positions
from trunkline.spark.reading import StreamReading

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.streaming.datasource import ReadLimit
    from pyspark.sql.types import StructType

    from trunkline.log.models import Ends

logger = telemetry.get_logger(__name__)

_MADE_AGAIN = (
    "Start with a new checkpoint, or with option failOnDataLoss=false, which reads it from its"
    " beginning."
)
_RESTORED = (
    "The server was restored to an earlier state, or the topic was made again. Start with a new"
    " checkpoint, with startingOffsets {}, and give the sink a new appId."
)
_PATIENCE = 0.5  # seconds that a stream with nothing to read waits for a wake-up
_DELAY = timedelta(minutes=15)  # what Kafka's source has where maxTriggerDelay is not given


class LogStreamReader(
    LogReading, StreamReading[LogOptions], DataSourceStreamReader, SupportsTriggerAvailableNow
):
    """Reads on from where the checkpoint ends; wakes up when something is appended."""

    def __init__(self, options: LogOptions, schema: StructType):
        super().__init__(options, schema)
        self._final: dict[Place, int] | None = None
        self._newest: Positions | None = None
        self._reported: Mapping[Place, int] = {}
        self._trusted: int | None = None
        self._arrivals: Arrivals | None = None
        self._waiting_since: float | None = None

    def initialOffset(self) -> dict[str, Any]:
        with connection.plain_errors():
            ends = self._ends()
            return _positions(ends, self._start(ends, "latest")).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        least = self._options.min_offsets_per_trigger
        most = self._options.max_offsets_per_trigger
        if least:
            return ReadMinRows(least)  # of two limits Spark carries one; the other is an option
        return ReadMaxRows(most) if most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        with connection.plain_errors():
            self._final = tips(self._ends())

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        least = limit.min_rows if isinstance(limit, ReadMinRows) and self._final is None else 1
        with connection.plain_errors():
            begin, ends = self._look(Positions.from_json(start))
            self._note_progress(begin)
            if not self._enough(begin, ends, least) and self._final is None:
                self._wait()
                begin, ends = self._look(begin)
            known = {place: _following(begin, place, ends) for place in ends}
            if not self._enough(begin, ends, least):
                return _positions(ends, known).to_json()
            self._waiting_since = None
            until = self._until(known, ends)
            if most := self._most(limit):
                until = plan.limit(known, until, most)
            return _positions(ends, until).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._newest.to_json() if self._newest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with connection.plain_errors():
            begin, stop = Positions.from_json(start), Positions.from_json(end)
            ends = self._ends()
            begin = self._within(self._these_topics(begin, ends), ends)
            stop = self._this_life(self._planned(stop, ends), ends)
            ranges = [
                self._there(Range(*place, first, until - 1), ends.get(place))
                for place, until in stop.next.items()
                if until > (first := _following(begin, place, ends))
            ]
            return [LogPartition(one) for one in plan.split(ranges, self._options.min_partitions)]

    def commit(self, end: dict[str, Any]) -> None:
        with connection.plain_errors():
            self._note_progress(Positions.from_json(end))

    def stop(self) -> None:
        if self._arrivals:
            self._arrivals.close()

    def _enough(self, begin: Positions, ends: Mapping[Place, Ends], least: int) -> bool:
        """Whether there is something to read, and enough of it, or something that waited long."""
        waiting = sum(
            max(0, tip - _following(begin, place, ends)) for place, tip in tips(ends).items()
        )
        now = time.monotonic()
        if waiting == 0 or self._waiting_since is None:
            self._waiting_since = now if waiting else None
        if waiting >= least:
            return True
        asked = self._options.max_trigger_delay
        delay = (_DELAY if asked is None else asked).total_seconds()
        return self._waiting_since is not None and now - self._waiting_since >= delay

    def _until(self, begin: Mapping[Place, int], ends: Mapping[Place, Ends]) -> dict[Place, int]:
        """Where all that may be read ends."""
        until = tips(ends)
        if self._final is not None:
            until = {place: min(tip, self._final.get(place, 1)) for place, tip in until.items()}
        return {place: max(tip, begin[place]) for place, tip in until.items()}

    def _most(self, limit: ReadLimit) -> int | None:
        """How many messages a micro-batch has at most; None when Spark asks for all."""
        if isinstance(limit, ReadMinRows):
            return self._options.max_offsets_per_trigger
        return limit.max_rows if isinstance(limit, ReadMaxRows) else None

    def _wait(self) -> None:
        if self._arrivals is None:
            by_pattern = self._options.subscribe_pattern is not None
            woken_by = ["log:"] if by_pattern else [f"log:{name}:" for name in self._topics()]
            self._arrivals = Arrivals(self.dsn, woken_by)
        self._arrivals.wait(_PATIENCE)

    def _look(self, noted: Positions) -> tuple[Positions, dict[Place, Ends]]:
        """Where a stream goes on in what is there now."""
        ends = self._ends()
        begin = self._this_life(self._these_topics(noted, ends), ends)
        begin = self._within(begin, ends)
        self._newest = _positions(ends, tips(ends))
        return begin, ends

    def _these_topics(self, noted: Positions, ends: Mapping[Place, Ends]) -> Positions:
        """Refuse positions in a topic that was made again, or read it from its beginning."""
        self._refuse_left_out(noted, ends)
        again = {
            place: ends[place].first_offset for place in self._of_others(noted, ends) & ends.keys()
        }
        return Positions(noted.incarnation, {**noted.next, **again}, _topic_ids(ends))

    def _refuse_left_out(self, noted: Positions, ends: Mapping[Place, Ends]) -> None:
        """Refuse a checkpoint of partitions that the options leave out, if they still exist."""
        if not (left_out := {place for place in noted.next.keys() - ends if not self._gone(place)}):
            return
        topics = ", ".join(sorted({topic for topic, _ in left_out}))
        if self._options.fail_on_data_loss:
            raise Invalid(
                f"the checkpoint reads {topics}, which the options leave out: what is not read yet"
                " would be skipped.",
                hint="Name it again, or use another checkpoint. Option failOnDataLoss=false goes on"
                " without it.",
            )
        logger.warning("topics are left out", topics=topics)

    def _gone(self, place: Place) -> bool:
        """Whether a partition that is not read was deleted; one that a pattern means was."""
        topic, partition = place
        if self._options.fits(topic):
            return True
        there = connection.db(self.dsn).run(calls.list_topics())
        return all(each.topic != topic or each.partitions <= partition for each in there)

    def _planned(self, stop: Positions, ends: Mapping[Place, Ends]) -> Positions:
        """Where a batch ends; of a topic that was made again since then nothing is read."""
        gone = self._of_others(stop, ends)
        kept = {place: offset for place, offset in stop.next.items() if place not in gone}
        return Positions(stop.incarnation, kept, stop.topic_ids)

    def _of_others(self, noted: Positions, ends: Mapping[Place, Ends]) -> set[Place]:
        """The places in topics that were deleted, or bear the name of one that was."""
        present = _topic_ids(ends)
        gone = {topic for topic, _ in noted.next if self._options.fits(topic)} - present.keys()
        for topic in sorted(gone):
            if self._options.fail_on_data_loss:
                raise PositionTrimmed(
                    f'topic "{topic}" was deleted since the checkpoint was written.',
                    hint="Option failOnDataLoss=false goes on without it.",
                )
            logger.warning("topic was deleted", topic=topic)
        others = {
            topic for topic, known in noted.topic_ids.items() if present.get(topic, known) != known
        }
        for topic in sorted(others):
            if self._options.fail_on_data_loss:
                raise PositionTrimmed(
                    f'topic "{topic}" was deleted and made again since the checkpoint was written.',
                    hint=_MADE_AGAIN,
                )
            logger.warning("topic was made again", topic=topic)
        return {place for place in noted.next if place[0] in others | gone}

    def _this_life(self, noted: Positions, ends: Mapping[Place, Ends]) -> Positions:
        """Positions of another life of the server: right in this history, or refused."""
        present = next(iter(ends.values())).incarnation
        if noted.incarnation == present or self._trusted == noted.incarnation:
            return noted
        for (topic, partition), offset in noted.next.items():
            if (topic, partition) in ends and offset > ends[topic, partition].first_offset:
                connection.db(self.dsn).run(
                    calls.position_check(topic, partition, offset, noted.incarnation)
                )
        self._trusted = noted.incarnation
        return noted

    def _within(self, noted: Positions, ends: Mapping[Place, Ends]) -> Positions:
        """Refuse positions behind the end of a partition, or read it from its beginning."""
        ahead = {
            place: offset
            for place, offset in noted.next.items()
            if place in ends and offset > ends[place].last_offset + 1
        }
        for (topic, partition), offset in ahead.items():
            end = ends[topic, partition]
            if self._options.fail_on_data_loss:
                following = end.last_offset + 1
                raise PositionTrimmed(
                    f'the next offset of partition {partition} of "{topic}" is {following}, the'
                    f" checkpoint goes on at {offset}.",
                    hint=_RESTORED.format(json.dumps({topic: {str(partition): following}})),
                )
            logger.warning("topic was made again", topic=topic, partition=partition, asked=offset)
        again = {place: ends[place].first_offset for place in ahead}
        return Positions(noted.incarnation, {**noted.next, **again}, noted.topic_ids)

    def _note_progress(self, done: Positions) -> None:
        """Show the lag under the group; Spark's own commit comes late, and never for the last."""
        group, newest = self._options.group_id, self._newest
        if group is None or newest is None or done.next == self._reported:
            return
        for topic, present in newest.topic_ids.items():
            if done.topic_ids.get(topic, present) != present:
                continue
            places = {
                place: offset
                for place, offset in done.next.items()
                if place[0] == topic and offset <= newest.next.get(place, 0)
            }
            connection.db(self.dsn).run(
                group_calls.progress(
                    topic,
                    group,
                    [partition for _, partition in places],
                    [offset - 1 for offset in places.values()],
                )
            )
        self._reported = done.next


def _following(noted: Positions, place: Place, ends: Mapping[Place, Ends]) -> int:
    """The next offset of a partition.

    A topic that the checkpoint does not know begins with its earliest message. A new partition of
    another begins with its first: if that has left, the stream has lost it.
    """
    if place in noted.next or place not in ends:
        return noted.next.get(place, 1)
    is_known = any(topic == place[0] for topic, _ in noted.next)
    return 1 if is_known else ends[place].first_offset


def _positions(ends: Mapping[Place, Ends], offsets: Mapping[Place, int]) -> Positions:
    return Positions(next(iter(ends.values())).incarnation, offsets, _topic_ids(ends))


def _topic_ids(ends: Mapping[Place, Ends]) -> dict[str, int]:
    return {topic: end.topic_id for (topic, _), end in ends.items()}
