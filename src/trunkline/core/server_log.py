"""The log of the bundled server: its end explains most failures."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from trunkline.core.errors import Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from trunkline.core.binaries import Account

_LONGEST = 10_000_000  # bytes, then it is set aside at the next start


def tail(log: Path, lines: int = 20) -> str:
    """The last lines."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 400 * lines))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    return ""


def set_aside(log: Path) -> None:
    """Rename a log that has grown too long."""
    with suppress(FileNotFoundError):
        if log.stat().st_size > _LONGEST:
            log.replace(log.with_suffix(".log.1"))


def failure(what: str, log: Path, *, account: Account | None = None, said: str = "") -> Unavailable:
    """The error for a server that does not do what it should, with the end of its log."""
    hint = "Look there, or give the DSN of another server (TRUNKLINE_DSN)."
    if account is not None:
        hint += f" It runs as {account.name}, who must be able to reach {log.parent}."
    end = tail(log, 8)
    text = "\n".join(part.strip() for part in (said, end and f"{log}:\n{end}") if part)
    return Unavailable(f"{what}:\n{text}\n", hint=hint, details={"log": str(log)})
