"""``trunkline object``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg
    from tests.cli.conftest import Cli


def test_objects_are_listed_granted_revoked_and_given_away(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    cli("log", "create", "mine")
    assert cli("object", "grant", "topic:mine", "manage", "trunkline_writer").code == 0
    (found,) = [each for each in cli("object", "list", "topic").rows if each["name"] == "mine"]
    assert found["grants"]["manage"] == ["trunkline_writer"]
    assert "lost manage" in cli("object", "revoke", "topic:mine", "manage", "trunkline_writer").err
    again = cli("object", "revoke", "topic:mine", "manage", "trunkline_writer")
    assert "had no grant" in again.err
    assert cli("object", "transfer", "topic:mine", "trunkline_admin").code == 0
    assert "trunkline_admin" in cli("object", "list", "--table").out
    assert cli("object", "grant", "topic:none", "read", "trunkline_writer").code == 3
    wrong = cli("object", "grant", "topic:mine", "fly", "trunkline_writer")
    assert wrong.code == 2
    assert "append, read, consume, manage" in wrong.err


def test_quotas_are_set_listed_and_removed(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    assert cli("object", "quota", "trunkline_writer", "--messages", "5").code == 0
    assert cli("object", "quotas").rows == [
        {"role": "trunkline_writer", "messages_per_second": 5, "bytes_per_second": None}
    ]
    assert "has no quota" in cli("object", "quota", "trunkline_writer").err
    assert cli("object", "quotas").rows == []
