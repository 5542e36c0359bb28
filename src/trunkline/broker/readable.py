"""Events of which one may be larger, as JSON, than the server can send: 1 GB.

A number such as 1e131071 is short where it is kept and long as JSON. One such event must hold up
nobody who reads: the call is made once more in a form that leaves out what is in it
(`Call.readable`), and says so. A handler makes it a dead letter.
"""

from __future__ import annotations

from typing import Any

from trunkline.core.unread import Unread

_TOO_LARGE = "as text it has more than the 1 GB that the server can send"


def readable_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row without ``unread``; where that was true, the payload says why it is not there."""
    if row.pop("unread", False):
        row["payload"] = Unread(f"(not read: {_TOO_LARGE})")
        row["payload"].reason = _TOO_LARGE
    return row
