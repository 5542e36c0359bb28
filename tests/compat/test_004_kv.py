"""The session that the document of pg_global_kv prints, as printed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.fixtures.asking import ask, column, refused

if TYPE_CHECKING:
    from tests.fixtures.asking import Session
    from tests.fixtures.roles import Role

SESSION: list[tuple[str, Any]] = [
    ("SELECT kv.get('DEFAULT', 'key');", None),
    ("SELECT kv.put('DEFAULT', 'key', '{\"Hello\": \"World\"}', 'NO_EXPIRE');", "INSERT"),
    ("SELECT kv.get('DEFAULT', 'key');", {"Hello": "World"}),
    ("SELECT kv.put('DEFAULT', 'key', '{\"foo\": \"bar\"}', 'NO_EXPIRE');", "UPDATE"),
    ("SELECT kv.get('DEFAULT', 'key');", {"foo": "bar"}),
    ("SELECT kv.delete('DEFAULT', 'key');", "UPDATE"),
    ("SELECT kv.get('DEFAULT', 'key');", None),
    (
        "SELECT kv.patch_numeric('DEFAULT', 'p_n_example', '{\"a\":1, \"b\":-5, \"c\": 0}',"
        " 'NO_EXPIRE');",
        "INSERT",
    ),
    ("SELECT kv.get('DEFAULT', 'p_n_example');", {"a": 1, "b": -5, "c": 0}),
    (
        "SELECT kv.patch_numeric('DEFAULT', 'p_n_example', '{\"a\":1, \"b\":-5, \"c\": null}',"
        " 'NO_EXPIRE');",
        "UPDATE",
    ),
    ("SELECT kv.get('DEFAULT', 'p_n_example');", {"b": -10, "a": 2}),
]

POLICIES = """
INSERT INTO expiry_to_interval (namespace, policy, time_length)
     VALUES ('DEFAULT', 'EXPIRY_1', '2 days'),
            ('DEFAULT', 'EXPIRY_2', '10 days'),
            ('DEFAULT', 'EXPIRY_3', '1 month'),
            ('DEFAULT', 'EXPIRY_4', '3 months'),
            ('DEFAULT', 'EXPIRY_5', '7 months'),
            ('DEFAULT', 'EXPIRY_6', '13 months'),
            ('DEFAULT', 'EXPIRY_7', '25 months')
"""
CATALOGUE = """
INSERT INTO catalog_instance VALUES ('tmtest01n.ndmad2'), ('tmtest02n.ndmad2');
INSERT INTO shard_name SELECT 'kv' || generate_series(1,12);
INSERT INTO shard_instance (hostname, port, shard_name)
    SELECT hostname, port, name FROM catalog_instance CROSS JOIN shard_name;
"""
HERE = "UPDATE kv_config.my_info SET hostname = 'tmtest01n.ndmad2';"


def test_the_printed_session_answers_as_printed(session: Session) -> None:
    for statement, answer in SESSION:
        cursor = session.execute(statement)
        assert cursor.description is not None
        assert cursor.description[0].name in ("get", "put", "delete", "patch_numeric")
        assert cursor.fetchall() == [(answer,)], statement


def test_a_put_of_null_deletes(session: Session) -> None:
    session.execute("SELECT kv.put('DEFAULT', 'key', '1', 'NO_EXPIRE')")
    assert ask(session, "SELECT kv.put('DEFAULT', 'key', NULL, 'NO_EXPIRE')") == "UPDATE"
    assert ask(session, "SELECT kv.get('DEFAULT', 'key')") is None


def test_the_json_null_is_a_value(session: Session) -> None:
    session.execute("SELECT kv.put('DEFAULT', 'key', 'null', 'NO_EXPIRE')")
    assert ask(session, "SELECT kv.get('DEFAULT', 'key')::text") == "null"


def test_the_printed_policies_are_there_and_can_be_inserted(session: Session) -> None:
    before = session.execute("TABLE kv.expiry_to_interval").fetchall()
    assert [policy for _, policy, _ in before] == [f"EXPIRY_{n}" for n in range(1, 8)]
    session.execute("SET search_path = kv")
    session.execute(POLICIES)
    assert session.execute("TABLE expiry_to_interval").fetchall() == before


def test_the_printed_catalogue_makes_the_instances_of_the_parade(session: Session) -> None:
    session.execute("SET search_path = kv_config, kv")
    session.execute(CATALOGUE)
    shards = [f"kv{n}" for n in range(1, 13)]
    found = session.execute("SELECT hostname, port, shard_name FROM shard_instance").fetchall()
    assert sorted(found) == sorted(
        (host, 5432, shard) for host in ("tmtest01n.ndmad2", "tmtest02n.ndmad2") for shard in shards
    )
    dsn = "select dsn from trunkline.kv_topology() where zone = %s and shard = 'kv7'"
    assert ask(session, dsn, ["tmtest02n.ndmad2"]) == (
        "host=tmtest02n.ndmad2 port=5432 dbname=kv7 user=kv_replicationd"
    )
    session.execute("SELECT kv_config.push_catalog_changes()")
    session.execute("DELETE FROM shard_instance WHERE shard_name <> 'kv1'")
    assert len(session.execute("TABLE shard_instance").fetchall()) == 2


def test_the_printed_update_says_which_instance_this_database_is(session: Session) -> None:
    session.execute("SET search_path = kv_config, kv")
    assert ask(session, "SELECT hostname FROM kv_config.my_info") is None
    with refused("TL404"):
        session.execute(HERE)
    session.execute(
        "INSERT INTO shard_instance SELECT host, 5432, current_database()"
        " FROM unnest(array['tmtest01n.ndmad2', 'tmtest02n.ndmad2']) host"
    )
    session.execute(HERE)
    assert ask(session, "SELECT hostname FROM kv_config.my_info") == "tmtest01n.ndmad2"
    pulled = session.execute("SELECT zone, scope FROM kv.local_replication_topology").fetchall()
    assert pulled == [("tmtest02n.ndmad2", "all")]


@pytest.mark.parametrize("policy", [f"EXPIRY_{n}" for n in range(1, 8)])
def test_a_policy_ends_the_key_after_its_time(session: Session, policy: str) -> None:
    session.execute("SELECT kv.put('DEFAULT', 'k', '1', %s)", [policy])
    left = ask(session, "select expires_at - now() from trunkline.kv_entry where key = 'k'")
    time = ask(
        session,
        "select now() + time_length - now() from kv.expiry_to_interval where policy = %s",
        [policy],
    )
    assert abs(left - time) < timedelta(minutes=1)


def test_no_expire_keeps_the_key(session: Session) -> None:
    session.execute("SELECT kv.put('DEFAULT', 'k', %s, 'NO_EXPIRE')", [Jsonb(1)])
    assert ask(session, "select expires_at from trunkline.kv_entry where key = 'k'") is None


def test_a_policy_can_be_changed_and_removed(session: Session) -> None:
    session.execute(
        "UPDATE kv.expiry_to_interval SET time_length = '1 day' WHERE policy = 'EXPIRY_1'"
    )
    session.execute("DELETE FROM kv.expiry_to_interval WHERE policy = 'EXPIRY_7'")
    found = dict(
        session.execute("SELECT policy, time_length FROM kv.expiry_to_interval").fetchall()
    )
    assert found["EXPIRY_1"] == timedelta(days=1)
    assert "EXPIRY_7" not in found
    with refused("TL404"):
        session.execute("SELECT kv.put('DEFAULT', 'k', '1', 'EXPIRY_7')")


def test_a_database_that_stands_alone_pulls_from_none(session: Session) -> None:
    assert column(session, "SELECT instance FROM kv.local_replication_topology") == []


def test_rights_are_those_of_our_functions(role: Role) -> None:
    stranger, reader, writer = role(), role("trunkline_reader"), role("trunkline_writer")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.execute("SELECT kv.get('DEFAULT', 'key')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute("SELECT kv.put('DEFAULT', 'key', '1', 'NO_EXPIRE')")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        writer.execute(f"SET search_path = kv; {POLICIES}")
    writer.execute("SELECT kv.put('DEFAULT', 'key', '1', 'NO_EXPIRE')")
    assert ask(reader, "SELECT kv.get('DEFAULT', 'key')") == 1
