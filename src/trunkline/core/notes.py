"""Errors and reasons on their way into the database, which keeps of them what it can.

Whoever reports a failure must not fail for the words of the report, which others wrote. So a NUL,
half of a surrogate pair, and whatever the encoding of the database lacks, are replaced.
"""

from __future__ import annotations

import codecs
from functools import cache

import psycopg
from psycopg.types.string import StrDumperUnknown

_OTHERWISE_NAMED = {"SQL_ASCII": "utf-8", "KOI8R": "koi8-r", "KOI8U": "koi8-u"}


class Note(str):
    """A text that is stored with what cannot be stored of it replaced."""

    __slots__ = ()


def storable(text: str) -> str:
    """A text as any Postgres with the encoding UTF8 can keep it."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()


class NoteDumper(StrDumperUnknown):
    """Sends a `Note` so that the server at the other end can keep it."""

    def dump(self, obj: str) -> psycopg.abc.Buffer | None:
        codec = "utf-8"
        if self.connection is not None:
            named = self.connection.pgconn.parameter_status(b"server_encoding")
            codec = _codec((named or b"UTF8").decode())
        return super().dump(storable(obj).encode(codec, "replace").decode(codec))


@cache
def _codec(encoding: str) -> str:
    """The codec of an encoding of Postgres; ASCII, a part of each, where Python has none."""
    try:
        return codecs.lookup(_OTHERWISE_NAMED.get(encoding, encoding.replace("WIN", "cp"))).name
    except LookupError:
        return "ascii"


psycopg.adapters.register_dumper(Note, NoteDumper)
