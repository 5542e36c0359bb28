"""``python -m trunkline.spark.java_install``: see to it that Spark has a Java.

What is there is used. Otherwise Debian's runtime is installed where that is allowed (root, or sudo
without a password); where it is not, the same packages are unpacked beside the virtual environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from trunkline.core.errors import Unavailable
from trunkline.spark.java import OLDEST, find_java

PACKAGE = f"openjdk-{OLDEST}-jre-headless"
UNPACKED = Path(sys.prefix) / "java"


def main() -> int:
    """Find or install a Java; its home on standard output, or on standard error what to do."""
    try:
        sys.stdout.write(f"{ensure()}\n")
    except Unavailable as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    return 0


def ensure() -> Path:
    """The home of a Java, installed if there was none; `Unavailable` says how to get one."""
    try:
        return find_java()
    except Unavailable:
        if shutil.which("apt-get") is None or os.environ.get("JAVA_HOME"):
            raise
    sys.stderr.write(f"There is no Java {OLDEST} or later here; fetching Debian's {PACKAGE}.\n")
    if not _installed():
        _unpack()
    return find_java()


def _installed() -> bool:
    """Install it for the whole machine, if we may."""
    if os.geteuid() == 0:
        become = []
    elif shutil.which("sudo") and _ran(["sudo", "-n", "true"]):
        become = ["sudo", "-n"]
    else:
        return False
    _ran([*become, "apt-get", "update", "-q"])
    return _ran([*become, "apt-get", "install", "-y", "-q", "--no-install-recommends", PACKAGE])


def _unpack() -> None:
    """Take the runtime out of its package; its configuration is linked to where it lies now."""
    with tempfile.TemporaryDirectory() as scratch:
        if not _ran(["apt-get", "download", "-q", PACKAGE], cwd=scratch):
            return
        for package in Path(scratch).glob("*.deb"):
            _ran(["dpkg", "-x", str(package), scratch])
        found = Path(scratch).glob("usr/lib/jvm/java-*-openjdk-*")
        homes = [home for home in found if not home.is_symlink()]
        configuration = Path(scratch) / "etc"
        for link in [path for home in homes for path in home.rglob("*") if path.is_symlink()]:
            origin = Path(scratch) / str(link.readlink()).lstrip("/")
            if link.readlink().is_absolute():
                link.unlink()
                if configuration in origin.parents and origin.exists():
                    copy = shutil.copytree if origin.is_dir() else shutil.copy2
                    copy(origin, link)
        if homes:
            shutil.rmtree(UNPACKED, ignore_errors=True)
            shutil.move(homes[0], UNPACKED)


def _ran(words: list[str], cwd: str | None = None) -> bool:
    done = subprocess.run(words, cwd=cwd, stdout=sys.stderr, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
