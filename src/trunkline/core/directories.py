"""Directories and files of the bundled server, which may run as another account."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.core.errors import Unavailable

if TYPE_CHECKING:
    from trunkline.core.binaries import Account

_LONGEST_SOCKET = 100  # bytes; Linux takes 107, macOS 103


def make_directory(directory: Path, account: Account | None) -> None:
    """Make a private directory for the server, and its missing parents for all."""
    for parent in reversed(directory.parents):
        if not parent.exists():
            parent.mkdir(exist_ok=True)
            parent.chmod(0o755)
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    # Only an empty one is given away: it is ours, or of one of us who was killed right here.
    if account is not None and directory.lstat().st_uid == 0 and not any(directory.iterdir()):
        os.chown(directory, account.uid, account.gid, follow_symlinks=False)


def insist_on_owner(directory: Path, account: Account | None) -> None:
    """A place under the temporary directory may have been made by somebody else before us."""
    found = directory.lstat()
    owner = os.geteuid() if account is None else account.uid
    if directory.is_symlink() or found.st_uid != owner or found.st_mode & 0o077:
        raise Unavailable(
            f"{directory} should be a private directory of the server, but is not.",
            hint="Remove it, or set TRUNKLINE_HOME to a shorter path.",
        )


def lock_file(path: Path, kind: int, account: Account | None) -> int:
    """Open a file for its lock, wait for that, and leave it open; what closes it unlocks it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        # Root opens files in a directory of another account: never give away what is linked there.
        if account is not None and os.fstat(file).st_nlink == 1:
            os.fchown(file, account.uid, account.gid)
        fcntl.flock(file, kind)
    except BaseException:
        os.close(file)
        raise
    return file


def socket_directory(directory: Path, data: Path, socket: str) -> str:
    """Where the socket is: beside the data, or in a short place when that path is too long.

    libpq takes a comma for the end of a host name.
    """
    short = f"trunkline-{hashlib.sha256(os.fsencode(data)).hexdigest()[:16]}"
    places = [directory, Path(tempfile.gettempdir()) / short, Path("/tmp") / short]  # noqa: S108
    for place in places:
        fits = len(os.fsencode(place / socket)) <= _LONGEST_SOCKET
        if fits and "," not in str(place):
            return str(place)
    return str(places[-1])
