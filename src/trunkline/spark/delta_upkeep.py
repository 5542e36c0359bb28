"""Upkeep of Delta tables: small files are merged, old files that are in no table are removed."""

from __future__ import annotations

import math
import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyarrow import fs

from trunkline.core import telemetry

if TYPE_CHECKING:
    from collections.abc import Mapping

STAGING = "_trunkline_staging"
GRACE_HOURS = 7 * 24  # how old a file must be before it is removed: longer than any write

_KEEPS = "delta.deletedFileRetentionDuration"
_INTERVAL = re.compile(r"interval\s+(\d+)\s+(week|day|hour|minute|second)s?", re.IGNORECASE)

logger = telemetry.get_logger(__name__)


def upkeep(path: str, files: fs.FileSystem, grace_hours: int = GRACE_HOURS) -> None:
    """Merge small files, remove files that are old and in no version that the table keeps.

    ``files`` is the folder of the table. A failure is logged and not raised: the next round tries
    again.
    """
    try:
        table = DeltaTable(path)
        table.optimize.compact()
        table.create_checkpoint()
        table.vacuum(
            retention_hours=max(grace_hours, kept_hours(table.metadata().configuration)),
            dry_run=False,
            enforce_retention_duration=False,
            full=True,
        )
        _remove_staged(files, older_than=time.time() - 3600 * grace_hours)
    except (DeltaError, OSError) as error:
        logger.warning("upkeep of the table failed", path=path, error=str(error))


def kept_hours(configuration: Mapping[str, str | None]) -> int:
    """How long a table keeps what has left it, as its owner set it; 0 when nobody did."""
    found = _INTERVAL.fullmatch((configuration.get(_KEEPS) or "").strip())
    if found is None:
        return 0
    kept = timedelta(**{f"{found[2].lower()}s": int(found[1])})
    return math.ceil(kept / timedelta(hours=1))


def _remove_staged(files: fs.FileSystem, *, older_than: float) -> None:
    for info in files.get_file_info(fs.FileSelector(STAGING, allow_not_found=True)):
        if info.mtime is not None and info.mtime.timestamp() < older_than:
            files.delete_file(info.path)
