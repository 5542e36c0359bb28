"""JSON as text: `JsonText` where it was asked for, `Unread` where Python cannot hold it."""

from __future__ import annotations


class JsonText(str):
    """A JSON value as the server writes it."""

    __slots__ = ()


class Unread(str):
    """The text of a JSON value, and why it is no more than that."""

    reason = ""
