"""What unread events cost, and the warning before they leave or fill the disk."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from trunkline.core import telemetry
from trunkline.core.calls import Call, one
from trunkline.core.service import Service

if TYPE_CHECKING:
    from trunkline.core.db import AsyncDb

logger = telemetry.get_logger(__name__)

_LONG = timedelta(days=1)
_NEARLY_FULL = 0.7
_WARN_EVERY = 3_600.0  # seconds


@dataclass(frozen=True, slots=True)
class Held:
    """What events and deliveries take, the limit, and the group that has waited the longest."""

    bytes: int
    most: int | None
    group_name: str | None
    handler: str | None
    since: datetime | None

    @property
    def is_nearly_full(self) -> bool:
        """Whether the oldest unread events leave soon, because of ``broker.hold_bytes``."""
        return self.most is not None and self.bytes > _NEARLY_FULL * self.most

    @property
    def warning(self) -> str | None:
        """What an operator has to know: the limit is near, or a group does not read."""
        is_old = self.since is not None and datetime.now(UTC) - self.since > _LONG
        if not (self.is_nearly_full or is_old):
            return None
        limit = "" if self.most is None else f" of {_gigabytes(self.most)} (broker.hold_bytes)"
        text = f"events and deliveries take {_gigabytes(self.bytes)}{limit}"
        if self.since is not None:
            reader = f'handler "{self.handler}" of group' if self.handler else "group"
            text += f"; {reader} {self.group_name} has not read since {self.since:%Y-%m-%d %H:%M}"
        return text


def held() -> Call[Held]:
    """What unread events cost, the limit, and the group that has waited the longest."""
    return Call("broker_held", {}, one(Held), safe_to_repeat=True)


class BrokerHoldWatch(Service):
    """Log a warning, at most once an hour, while unread events fill the disk."""

    name = "broker-hold-watch"
    interval = 60.0

    def __init__(self, db: AsyncDb):
        self._db = db
        self._warned_at = float("-inf")

    async def run_once(self) -> int:
        found = await self._db.run(held())
        now = time.monotonic()
        if found.warning is not None and now - self._warned_at >= _WARN_EVERY:
            self._warned_at = now
            logger.warning(found.warning, bytes=found.bytes, group=found.group_name)
        return 0


def _gigabytes(n: int) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e8 else f"{n / 1e6:.1f} MB"
