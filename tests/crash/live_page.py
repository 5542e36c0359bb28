"""A page that follows a live table and is killed: ``live_page.py DSN FILE``.

The file holds what it shows together with the token of the last change, or neither: it is replaced
as a whole.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import trunkline
from trunkline.core.service import Supervisor
from trunkline.live.models import Change, LiveBatch


async def main(dsn: str, file: Path, state: dict[str, Any]) -> None:
    ready = False
    async with trunkline.connect(dsn) as platform:
        asyncio.create_task(Supervisor(platform.services()).run())  # noqa: RUF006 - to the end
        stream = platform.live.stream(
            "contacts", condition={"org_id": 7}, after=state["token"], heartbeat=0.2
        )
        async with stream:
            async for item in stream.items():
                assert item.token, item
                if isinstance(item, LiveBatch):
                    for change in item.changes:
                        show(state["rows"], change)
                state["token"] = item.token
                keep(file, state)
                if not ready:
                    ready = True
                    print("ready", flush=True)


def keep(file: Path, state: dict[str, Any]) -> None:
    written = file.with_suffix(".new")
    written.write_text(json.dumps(state))
    written.replace(file)


def show(rows: dict[str, Any], change: Any) -> None:
    number = str(change.key["id"])
    if change.change in {Change.DELETED, Change.LEFT}:
        assert number in rows, change
        del rows[number]
        return
    assert (number in rows) == (change.change is Change.UPDATED), change
    rows[number] = change.row["name"]


if __name__ == "__main__":
    place = Path(sys.argv[2])
    asyncio.run(main(sys.argv[1], place, json.loads(place.read_text())))
