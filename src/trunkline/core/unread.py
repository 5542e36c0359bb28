"""`Unread`: JSON that Python cannot hold, such as a number of 5,000 digits, as the text that it is.

One such value must not keep anybody from the rest of an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.types.json import JsonbLoader

if TYPE_CHECKING:
    from psycopg.abc import Buffer


class Unread(str):
    """The text of a JSON value, and why it is no more than that."""

    reason = ""


class UnreadLoader(JsonbLoader):
    """Otherwise as psycopg's."""

    def load(self, data: Buffer) -> Any:
        """The value, or its text."""
        try:
            return super().load(data)
        except (ValueError, RecursionError) as error:
            text = Unread(bytes(data).decode())
            text.reason = str(error)
            return text
