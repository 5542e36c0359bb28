"""Which Java runs Spark: 17 or later, from JAVA_HOME, the PATH or the usual places."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trunkline.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST = 17

_PLACES = (
    f"{sys.prefix}/java",
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
)
_VERSION = re.compile(r'version "(?P<major>\d+)(?:\.(?P<minor>\d+))?')
_HINT = (
    f"Spark needs Java {OLDEST} or later. Debian and Ubuntu: sudo apt-get install "
    f"openjdk-{OLDEST}-jre-headless. Elsewhere install any JDK {OLDEST}+ and set JAVA_HOME to it."
)


def find_java() -> Path:
    """The home of a Java that Spark runs on; `Unavailable` says how to get one."""
    named = os.environ.get("JAVA_HOME")
    if named:
        found = _major(Path(named))
        if found is None:
            raise Unavailable(f"JAVA_HOME is {named}, but there is no Java.", hint=_HINT)
        if found < OLDEST:
            raise Unavailable(f"JAVA_HOME is {named}, which is Java {found}.", hint=_HINT)
        return Path(named)
    too_old = []
    for home in _candidates():
        found = _major(home)
        if found is not None and found >= OLDEST:
            return home
        if found is not None:
            too_old.append(f"{home} (Java {found})")
    seen = f" Found only {', '.join(too_old)}." if too_old else ""
    raise Unavailable(f"no Java {OLDEST} or later was found.{seen}", hint=_HINT)


def _candidates() -> Iterator[Path]:
    if command := shutil.which("java"):
        yield Path(command).resolve().parent.parent
    for pattern in _PLACES:
        place = Path(pattern).expanduser()
        yield from sorted(Path(place.anchor).glob(str(place.relative_to(place.anchor))))


def _major(home: Path) -> int | None:
    """The version of the Java in a directory; None when there is none that runs."""
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = _VERSION.search(done.stderr)
    if done.returncode or said is None:
        return None
    major = int(said["major"])
    return int(said["minor"] or 0) if major == 1 else major
