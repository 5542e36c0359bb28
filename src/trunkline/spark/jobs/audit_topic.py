"""`audit_topic`: is a topic whole, in the database and in its archive?

The hot part is verified by the server. Every file of the archive is read by a task: offsets must
have no gap, and its messages must come to the checksum that the manifest noted when the segment was
copied. The ranges of the manifest must follow each other up to the hot part.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import TrunklineError
from trunkline.log import calls
from trunkline.spark import connection
from trunkline.spark.jobs.job import silent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from trunkline.log.models import Archived
    from trunkline.spark.jobs.job import Progress

_FOUND = "number int, messages bigint, problem string"


@dataclass(frozen=True, slots=True)
class TopicPart:
    """A range of a partition, where it lies, and what is wrong with it; None when it is whole."""

    topic: str
    partition: int
    place: str
    first_offset: int
    last_offset: int
    messages: int
    problem: str | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return self.problem is None

    def to_json(self) -> dict[str, Any]:
        """For reports."""
        return {**asdict(self), "whole": self.whole}


def audit_topic(
    spark: SparkSession, topic: str, *, dsn: str | None = None, progress: Progress = silent
) -> list[TopicPart]:
    """Verify a topic from its first archived offset to its last; one `TopicPart` per range."""
    dsn = connection.locate(dsn)
    with connection.plain_errors():
        db = connection.db(dsn)
        hot = [
            TopicPart(
                topic,
                check.partition,
                "database",
                check.first_offset,
                check.last_offset,
                check.messages,
                check.problem,
            )
            for check in db.run(calls.verify(topic))
        ]
        manifest = db.run(calls.archives(topic))
        progress(0, len(manifest), topic)
        archived = _read(spark, topic, manifest)
        progress(len(manifest), len(manifest), topic)
        return sorted(
            [*_joined(archived, hot), *hot], key=lambda part: (part.partition, part.first_offset)
        )


def _read(spark: SparkSession, topic: str, manifest: Sequence[Archived]) -> list[TopicPart]:
    if not manifest:
        return []
    frame = spark.range(0, len(manifest), 1, len(manifest))
    rows = frame.mapInArrow(ReadTask(tuple(manifest)), _FOUND).collect()
    found = {row["number"]: row for row in rows}
    return [
        TopicPart(
            topic,
            row.partition,
            row.location,
            row.first_offset,
            row.last_offset,
            found[number]["messages"],
            found[number]["problem"],
        )
        for number, row in enumerate(manifest)
    ]


def _joined(archived: list[TopicPart], hot: list[TopicPart]) -> list[TopicPart]:
    """The archived parts; one that does not reach the next has a problem."""
    firsts = {part.partition: part.first_offset for part in hot}
    joined = []
    for partition in sorted({part.partition for part in archived}):
        ours = sorted(
            (part for part in archived if part.partition == partition),
            key=lambda part: part.first_offset,
        )
        for part, following in pairwise([*ours, None]):
            if part is None:
                continue
            reaches = following.first_offset if following else firsts.get(partition, 1)
            gap = part.last_offset + 1 < reaches
            said = f"offsets {part.last_offset + 1} to {reaches - 1} are nowhere" if gap else None
            joined.append(TopicPart(**{**asdict(part), "problem": part.problem or said}))
    return joined


class ReadTask:
    """What a task does: the files of its row of the manifest are read and digested."""

    def __init__(self, manifest: tuple[Archived, ...]):
        self._manifest = manifest

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        schema = pa.schema(
            [("number", pa.int32()), ("messages", pa.int64()), ("problem", pa.string())]
        )
        for batch in batches:
            for number in batch.column("id").to_pylist():
                messages, problem = _examined(self._manifest[number])
                row = {"number": number, "messages": messages, "problem": problem}
                yield pa.RecordBatch.from_pylist([row], schema=schema)


def _examined(row: Archived) -> tuple[int, str | None]:
    import pyarrow.compute as pc
    from pyarrow import ArrowException

    from trunkline.log.archive import Digest

    digest = Digest()
    expected = row.first_offset
    try:
        for part in _batches(row):
            offsets = part.column("offset")
            if part.num_rows and offsets[0].as_py() != expected:
                return digest.messages, f"offset {expected} is missing"
            steps = pc.subtract(offsets[1:], offsets[:-1])
            if pc.any(pc.not_equal(steps, 1)).as_py():
                return digest.messages, f"there is a gap after offset {expected}"
            digest.update(part)
            expected += part.num_rows
    except (OSError, ArrowException, TrunklineError) as error:
        return digest.messages, f"cannot be read: {error}"
    if expected != row.last_offset + 1:
        return digest.messages, f"ends at offset {expected - 1}"
    if digest.checksum() != row.checksum:
        return digest.messages, "the messages do not come to the checksum of the manifest"
    return digest.messages, None


def _batches(row: Archived) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    from trunkline.log.archive import SCHEMA
    from trunkline.log.archived import open_location

    filesystem, root = open_location(row.location)
    for file in row.files:
        with filesystem.open_input_file(f"{root}/{file.path}") as source:
            for batch in pq.ParquetFile(source).iter_batches():
                yield batch.select(SCHEMA.names).cast(SCHEMA)
