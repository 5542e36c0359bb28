"""What is told of failures is kept, whatever is in it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.fixtures.postgres import new_database

from trunkline.core.notes import Note

if TYPE_CHECKING:
    from tests.fixtures.postgres import AnyServer


@pytest.mark.parametrize(
    ("encoding", "kept"),
    [
        ("UTF8", "für 5 € \N{REPLACEMENT CHARACTER} ? и"),
        ("LATIN1", "für 5 ? ? ? ?"),
        ("WIN1252", "für 5 € ? ? ?"),
        ("KOI8R", "f?r 5 ? ? ? и"),
        ("EUC_TW", "f?r 5 ? ? ? ?"),
        ("SQL_ASCII", "für 5 € \N{REPLACEMENT CHARACTER} ? и"),
    ],
)
def test_what_a_database_cannot_keep_of_a_note_is_replaced(
    server: AnyServer, encoding: str, kept: str
) -> None:
    with new_database(server, template="template0", encoding=encoding) as name:
        dsn = server.dsn(name)
        with closing(psycopg.connect(dsn, autocommit=True, client_encoding="UTF8")) as session:
            stored = session.execute("select %s::text", [Note("für 5 € \0 \ud800 и")])
            assert stored.fetchone() == (kept,)
