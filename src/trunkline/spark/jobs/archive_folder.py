"""The folder of a topic's archive: whose it is, and what in it nobody needs."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyarrow.fs import FileSelector, FileType, LocalFileSystem

from trunkline.core import telemetry
from trunkline.core.errors import BadRequest, Conflict
from trunkline.log.archived import open_location

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyarrow.fs import FileSystem

    from trunkline.log.models import Topic

logger = telemetry.get_logger(__name__)

_NAME = re.compile(r"\d+/\d{20}-\d{20}-(?P<incarnation>\d+)-[0-9a-f]{32}\.parquet")
_MARK = "_trunkline.json"


def claim_folder(location: str, topic: Topic) -> None:
    """Make the folder of a topic, or see that it is; `Conflict` when it is anything else."""
    filesystem, path = open_location(location)
    mine = json.dumps(
        {
            "topic": topic.topic,
            "topic_id": topic.topic_id,
            "created_at": topic.created_at.isoformat(),
        }
    )
    mark = f"{path}/{_MARK}"
    said = _read(filesystem, mark)
    found = None if said is None else _parsed(said)
    if found is not None:
        if found != (topic.topic, topic.topic_id, topic.created_at):
            raise Conflict(
                f'{location} is the archive of another topic "{topic.topic}":'
                f" {(said or b'').decode()[:200]}.",
                hint="The topic was created again, or belongs to another database: choose another"
                " location, or move the folder away.",
            )
    elif _is_empty(filesystem, path):
        try:
            _write(filesystem, path, mine)
        except OSError as error:
            raise BadRequest(f"{location} cannot be written: {error}.") from error
    else:
        raise Conflict(
            f"{location} is not empty and does not say that it is the archive of a topic.",
            hint=f"Choose another location. If it is the archive of this topic, {_MARK} in it must"
            f" say: {mine}",
        )


def _read(filesystem: FileSystem, mark: str) -> bytes | None:
    """What the mark of a folder says; None when there is none."""
    if filesystem.get_file_info(mark).type is FileType.NotFound:
        return None
    with filesystem.open_input_stream(mark) as stream:
        said: bytes = stream.read()
    return said


def _parsed(said: bytes) -> tuple[Any, Any, datetime] | None:
    """Whose a folder is; None for a mark that makes no sense."""
    try:
        found: dict[str, Any] = json.loads(said)
        return found["topic"], found["topic_id"], datetime.fromisoformat(found["created_at"])
    except (ValueError, KeyError, TypeError):
        return None


def _is_empty(filesystem: FileSystem, path: str) -> bool:
    """Whether a folder holds nothing but, maybe, a mark that a run which died did not finish."""
    entries = filesystem.get_file_info(FileSelector(path, allow_not_found=True))
    return all(info.base_name.startswith(_MARK) for info in entries)


def _write(filesystem: FileSystem, path: str, text: str) -> None:
    """Mark a folder; where files grow under their name, whole or not at all."""
    filesystem.create_dir(path, recursive=True)
    local = isinstance(filesystem, LocalFileSystem)
    place = f"{path}/{_MARK}.{uuid4().hex}" if local else f"{path}/{_MARK}"
    with filesystem.open_output_stream(place) as stream:
        stream.write(text.encode())
    if local:
        filesystem.move(place, f"{path}/{_MARK}")


def incarnation_of(path: str) -> int | None:
    """Which life of the server wrote a file; None when it is not one of ours."""
    found = _NAME.fullmatch(path)
    return None if found is None else int(found["incarnation"])


def remove_orphans(
    location: str,
    *,
    incarnation: int,
    before: datetime,
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
    # whatever this run writes: earlier ones may have kept a table
    if filesystem.get_file_info(f"{root}/_delta_log").type is not FileType.NotFound:
        from trunkline.spark.jobs.archive_delta import delta_files

        needed |= delta_files(location)
    removed = 0
    for info in found:
        if info.path.removeprefix(f"{root}/") in needed:
            continue
        try:
            filesystem.delete_file(info.path)
        except OSError as error:
            logger.warning("a file of a run that died stays", file=info.path, error=str(error))
        else:
            logger.info("removed the file of a run that died", file=info.path)
            removed += 1
    return removed
