"""How jsonb is read where psycopg's way will not do.

One value that Python cannot hold, such as a number of 5,000 digits, must not keep anybody from the
rest of an answer; and who hands JSON on as it is need not read it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg.types.json import JsonbLoader
from psycopg.types.string import TextLoader

from trunkline.core.unread import JsonText, Unread

if TYPE_CHECKING:
    from psycopg.abc import Buffer


class JsonTextLoader(TextLoader):
    """The text, not what it means."""

    def load(self, data: Buffer) -> Any:
        """The text as `JsonText`."""
        return JsonText(super().load(data))


class UnreadLoader(JsonbLoader):
    """Otherwise as psycopg's."""

    def load(self, data: Buffer) -> Any:
        """The value, or its text as `Unread`."""
        try:
            return super().load(data)
        except (ValueError, RecursionError) as error:
            text = Unread(bytes(data).decode())
            text.reason = str(error)
            return text
