"""Making the data directory of the bundled server."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from trunkline.core.binaries import run
from trunkline.core.server_log import failure

if TYPE_CHECKING:
    from pathlib import Path

    from trunkline.core.binaries import Account, Binaries

# Written into postgresql.conf when the data directory is made, so that people may edit them.
DEFAULTS = {
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    "max_connections": "200",
    "max_prepared_transactions": "20",
    "jit": "off",
}


def initialise(
    data: Path, log: Path, binaries: Binaries, superuser: str, account: Account | None
) -> None:
    """Make a data directory under another name, then rename it: it is whole or not there."""
    fresh = data.with_name("data.new")
    shutil.rmtree(fresh, ignore_errors=True)
    words = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--username={superuser}"]
    words += ["--encoding=UTF8", "--no-locale", "--no-instructions"]
    done = run([binaries.directory / "initdb", "-D", fresh, *words], account=account)
    if done.returncode != 0:
        raise failure("the database cannot be made", log, account=account, said=done.stderr)
    configuration = os.open(fresh / "postgresql.conf", os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)
    with os.fdopen(configuration, "a") as file:
        file.write("\n# Trunkline's defaults; edit them freely\n")
        file.writelines(f"{name} = '{value}'\n" for name, value in DEFAULTS.items())
        file.flush()
        os.fsync(file.fileno())
    try:
        fresh.rename(data)
    except OSError as error:
        raise failure(f"{data} is in the way", log, said=f"{error.strerror}\n") from error
