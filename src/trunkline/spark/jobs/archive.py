"""``archive``: sealed segments of topics go to Parquet files, as a Delta table if wanted.

One task copies one segment. The driver checks what came back, commits the Delta transaction and
then the rows of the manifest, wave by wave; the manifest alone says what is archived. So a run may
die anywhere and be started again:

- before the manifest has a segment, it is copied anew; a file of the dead run that made it into
  the Delta table is replaced in the transaction that adds the new one;
- files of dead runs that nothing refers to are removed by a later run, after a grace, and only if
  this life of the server wrote them (their names tell).

Two runs at once: a lease per topic lets only one of them work, and says who that is. Should a run
outlive its lease, its Delta transaction meets that of its successor and is refused, or else the
manifest refuses its rows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.errors import Invalid, TrunklineError
from trunkline.core.lease import default_name
from trunkline.log import calls
from trunkline.log.models import ArchivedFile, SealedSegment
from trunkline.spark import connection
from trunkline.spark.jobs.job import owning, plain_failures, silent, slots

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession

    from trunkline.core.db import Db
    from trunkline.log.archive_file import WrittenFile
    from trunkline.spark.jobs.job import Ownership, Progress

logger = telemetry.get_logger(__name__)

FORMATS = ("delta", "parquet")
GRACE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ArchivedTopic:
    """What a run did for a topic, or would do."""

    topic: str
    segments: int
    messages: int
    bytes: int
    location: str
    seconds: float = 0.0
    orphans: int = 0


def archive(
    spark: SparkSession,
    topics: Sequence[str] | None = None,
    *,
    location: str,
    format: str = "delta",  # noqa: A002
    dsn: str | None = None,
    dry_run: bool = False,
    grace: timedelta = GRACE,
    progress: Progress = silent,
) -> list[ArchivedTopic]:
    """Copy sealed segments of topics to files under ``location``, one folder per topic.

    Without ``topics``, of all that ask to be archived. ``grace`` is how old a file of a run that
    died must be to be removed. Safe to start at any time, again and by several.
    """
    root = _root(location)
    _check_format(format)
    dsn = connection.locate(dsn)
    with connection.plain_errors():
        db = connection.db(dsn)
        if dry_run:
            return planned(db, topics, location=location)
        with owning(db, f"archive by {default_name()}") as owner:
            names = {segment.topic for segment in _archivable(db, topics)} | set(topics or ())
            for name in sorted(names):
                owner.take(f"archive:{name}")
            return Run(spark, db, dsn, root, format, grace, progress, owner).archive(sorted(names))


def _check_format(format: str) -> None:  # noqa: A002
    if format not in FORMATS:
        raise Invalid(f'format is "delta" or "parquet", got "{format}".')


def planned(
    db: Db,
    topics: Sequence[str] | None,
    *,
    location: str,
    format: str = "delta",  # noqa: A002
) -> list[ArchivedTopic]:
    """What a run would do now; needs no Spark."""
    _check_format(format)
    root = _root(location)
    return [
        ArchivedTopic(
            topic,
            len(found),
            sum(segment.messages for segment in found),
            sum(segment.bytes for segment in found),
            _folder(root, topic),
        )
        for topic, found in _by_topic(_archivable(db, topics))
    ]


@dataclass(frozen=True, slots=True)
class Copied:
    """A segment and the file that it was copied to."""

    segment: SealedSegment
    file: WrittenFile


class Run:
    """One run on the driver; ``topics`` are its own while it lasts."""

    def __init__(
        self,
        spark: SparkSession,
        db: Db,
        dsn: str,
        root: str,
        format: str,  # noqa: A002
        grace: timedelta,
        progress: Progress,
        owner: Ownership,
    ):
        self._spark = spark
        self._db = db
        self._dsn = dsn
        self._root = root
        self._format = format
        self._grace = grace
        self._progress = progress
        self._owner = owner

    def archive(self, topics: Sequence[str]) -> list[ArchivedTopic]:
        """Archive topics one after the other; what fails does not keep the others from it."""
        waiting = {name: self._db.run(calls.archivable(name)) for name in topics}
        total = sum(segment.messages for found in waiting.values() for segment in found)
        done, results, failure = 0, [], None
        for name, segments in waiting.items():
            try:
                topic = TopicArchive(self._db, self._root, name, self._format)
                begun = time.monotonic()
                copies: list[Copied] = []
                self._progress(done, total, name)
                for wave in _waves(segments, slots(self._spark)):
                    good, trouble = self._copy(wave, topic)
                    self._owner.check()
                    topic.commit(good)
                    copies += good
                    done += sum(copy.segment.messages for copy in good)
                    self._progress(done, total, name)
                    if trouble is not None:
                        raise trouble
                results.append(
                    ArchivedTopic(
                        name,
                        len(copies),
                        sum(copy.file.messages for copy in copies),
                        sum(copy.file.bytes for copy in copies),
                        topic.location,
                        round(time.monotonic() - begun, 3),
                        topic.clean(self._grace),
                    )
                )
            except TrunklineError as error:
                logger.warning("not archived", topic=name, error=str(error))
                failure = failure or error
        if failure is not None:
            raise failure
        return results

    def _copy(
        self, segments: Sequence[SealedSegment], topic: TopicArchive
    ) -> tuple[list[Copied], TrunklineError | None]:
        """Copy segments in parallel: those of each partition up to the first that failed."""
        from trunkline.log.archive_file import WrittenFile
        from trunkline.spark.jobs.archive_copy import COPIED, CopyTask

        work = CopyTask(self._dsn, topic.location, topic.incarnation, tuple(segments))
        frame = self._spark.range(0, len(segments), 1, len(segments))
        with plain_failures():
            rows = {row["number"]: row for row in frame.mapInArrow(work, COPIED).collect()}
        good: list[Copied] = []
        trouble: TrunklineError | None = None
        broken: set[int] = set()
        for number, segment in enumerate(segments):
            row = rows.get(number)
            if row is None or row["error"] is not None or row["messages"] != segment.messages:
                broken.add(segment.partition)
                said = "nothing came back" if row is None else row["error"] or "messages are gone"
                trouble = trouble or Invalid(
                    f"offsets {segment.first_offset} to {segment.last_offset} of"
                    f" {segment.topic}/{segment.partition} could not be copied: {said}"
                )
            elif segment.partition not in broken:
                file = WrittenFile(
                    row["path"],
                    row["messages"],
                    row["bytes"],
                    row["checksum"],
                    row["first_at"],
                    row["last_at"],
                )
                good.append(Copied(segment, file))
        return good, trouble


class TopicArchive:
    """Where a topic is archived: the folder, the Delta table in it, the manifest."""

    def __init__(self, db: Db, root: str, topic: str, format: str):  # noqa: A002
        from trunkline.spark.jobs.archive_folder import claim_folder

        self.location = _folder(root, topic)
        self._db = db
        self._topic = topic
        self._format = format
        settings = db.run(calls.settings(topic))
        self.incarnation = next(end.incarnation for end in db.run(calls.ends([topic])))
        claim_folder(self.location, settings)

    def commit(self, copies: Sequence[Copied]) -> None:
        """What was copied belongs to the archive from now on."""
        if not copies:
            return
        if self._format == "delta":
            from trunkline.spark.jobs.archive_delta import add_to_delta

            add_to_delta(
                self.location, copies, incarnation=self.incarnation, manifest=self._manifest
            )
        for copy in copies:
            self._db.run(
                calls.archive_add(
                    copy.segment,
                    location=self.location,
                    format=self._format,
                    files=[ArchivedFile(copy.file.path, copy.file.messages)],
                    bytes=copy.file.bytes,
                    checksum=copy.file.checksum,
                )
            )

    def clean(self, grace: timedelta) -> int:
        """Remove files of runs that died; how many."""
        from trunkline.spark.jobs.archive_folder import remove_orphans

        before = datetime.now(UTC) - grace
        return remove_orphans(
            self.location,
            incarnation=self.incarnation,
            before=before,
            manifest=self._manifest,
        )

    def _manifest(self) -> set[str]:
        """The files that the archive consists of."""
        rows = self._db.run(calls.archives(self._topic))
        return {file.path for row in rows if row.location == self.location for file in row.files}


def _archivable(db: Db, topics: Sequence[str] | None) -> list[SealedSegment]:
    names = [None] if topics is None else list(dict.fromkeys(topics))
    return [segment for name in names for segment in db.run(calls.archivable(name))]


def _by_topic(segments: Sequence[SealedSegment]) -> list[tuple[str, list[SealedSegment]]]:
    return [
        (topic, list(found)) for topic, found in groupby(segments, lambda segment: segment.topic)
    ]


def _waves(segments: Sequence[SealedSegment], slots: int) -> Iterator[Sequence[SealedSegment]]:
    """Some segments at a time: what a run that dies has to do again."""
    size = 2 * slots
    for first in range(0, len(segments), size):
        yield segments[first : first + size]


def _folder(root: str, topic: str) -> str:
    """The folder of a topic, which is nowhere but in the root."""
    if topic in {".", ".."}:
        raise Invalid(
            f'topic "{topic}" cannot be archived: as a folder its name means another one.',
            hint="Name the topics to archive.",
        )
    return f"{root}/{topic}"


def _root(location: str) -> str:
    if not location:
        raise Invalid("a location is a folder or a URI, got nothing.")
    if "@" in location.partition("://")[2].partition("/")[0]:
        raise Invalid(
            "a location must not contain credentials.",
            hint="Every reader of the topic sees it: keep credentials in the environment.",
        )
    if "://" in location or location.startswith("file:"):
        return location.rstrip("/")
    return str(Path(location).expanduser().absolute()).rstrip("/")
