"""The folder of a topic's archive: whose it is, and what in it nobody needs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from pyarrow.fs import FileSelector, FileType

from trunkline.core import telemetry
from trunkline.core.errors import BadRequest, Conflict
from trunkline.log.archived import open_location

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from trunkline.log.models import Topic

logger = telemetry.get_logger(__name__)

_NAME = re.compile(r"\d+/\d{20}-\d{20}-(?P<incarnation>\d+)-[0-9a-f]{32}\.parquet")
_MARK = "_trunkline.json"


def claim_folder(location: str, topic: Topic) -> None:
    """Make the folder of a topic, or see that it is; `Conflict` when it is another topic's."""
    filesystem, path = open_location(location)
    mine = {
        "topic": topic.topic,
        "topic_id": topic.topic_id,
        "created_at": topic.created_at.isoformat(),
    }
    mark = f"{path}/{_MARK}"
    if filesystem.get_file_info(mark).type is FileType.NotFound:
        try:
            filesystem.create_dir(path, recursive=True)
            with filesystem.open_output_stream(mark) as stream:
                stream.write(json.dumps(mine).encode())
        except OSError as error:
            raise BadRequest(f"{location} cannot be written: {error}.") from error
        return
    with filesystem.open_input_stream(mark) as stream:
        said = stream.read()
    if not _same(said, topic):
        raise Conflict(
            f'{location} is the archive of another topic "{topic.topic}": {said.decode()[:200]}.',
            hint="The topic was made anew, or belongs to another database: choose another location,"
            " or move the folder away.",
        )


def _same(said: bytes, topic: Topic) -> bool:
    from datetime import datetime

    try:
        found: dict[str, Any] = json.loads(said)
        created = datetime.fromisoformat(found["created_at"])
    except (ValueError, KeyError, TypeError):
        return False
    mine = (topic.topic, topic.topic_id, topic.created_at)
    return (found.get("topic"), found.get("topic_id"), created) == mine


def incarnation_of(path: str) -> int | None:
    """Which life of the server wrote a file; None when it is not one of ours."""
    found = _NAME.fullmatch(path)
    return None if found is None else int(found["incarnation"])


def remove_orphans(
    location: str,
    *,
    incarnation: int,
    before: datetime,
    delta: bool,
    manifest: Callable[[], set[str]],
) -> int:
    """Remove files that this life of the server wrote and nothing refers to; how many."""
    filesystem, root = open_location(location)
    found = [
        info
        for info in filesystem.get_file_info(FileSelector(root, recursive=True))
        if info.type is FileType.File
        and incarnation_of(info.path.removeprefix(f"{root}/")) == incarnation
        and info.mtime is not None
        and info.mtime < before
    ]
    if not found:
        return 0
    needed = manifest()  # after the listing: what is not in it now was not noted meanwhile
    if delta:
        from trunkline.spark.jobs.archive_delta import delta_files

        needed |= delta_files(location)
    orphans = [info for info in found if info.path.removeprefix(f"{root}/") not in needed]
    for info in orphans:
        filesystem.delete_file(info.path)
        logger.info("removed the file of a run that died", file=info.path)
    return len(orphans)
