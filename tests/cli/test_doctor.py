"""``trunkline doctor`` on healthy and on sick databases."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.cli.conftest import Answer, Cli, caller
from tests.fixtures.postgres import new_database, open_two_sessions

from trunkline.core import migrate
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.fixtures.postgres import AnyServer, TwoSessions

    from trunkline.core.embedded import Server

APPEND = "select trunkline.log_append('orders', 0, array['x'::bytea])"


def states(answer: Answer) -> dict[str, str]:
    """The worst state of each check."""
    rank = ("ok", "warn", "fail")
    found: dict[str, str] = {}
    for row in answer.rows:
        worst = max(row["state"], found.get(row["check"], "ok"), key=rank.index)
        found[row["check"]] = worst
    return found


def finding(answer: Answer, check: str) -> Any:
    return next(row for row in answer.rows if row["check"] == check and row["state"] != "ok")


def test_a_healthy_database_passes(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    sql.execute("call trunkline.maintain()")
    answer = cli("doctor")
    assert answer.code == 0
    found = states(answer)
    found.pop("durability")  # the server of the tests is quick, not durable
    assert set(found.values()) == {"ok"}, answer.out
    checks = {
        "connection",
        "isolation",
        "schema",
        "roles",
        "maintenance",
        "leases",
        "sessions",
        "rotation",
        "objects",
    }
    assert checks <= set(found)
    assert "ok" in cli("doctor", "--table").out


def test_a_server_that_does_not_answer_is_a_finding(cli: Cli) -> None:
    answer = cli("doctor", "--dsn", "postgresql://me:s3cret@127.0.0.1:1/x")
    assert answer.code == 1
    assert states(answer) == {"connection": "fail"}
    assert "s3cret" not in answer.out


def test_a_missing_schema_comes_with_the_way_to_it(cli: Cli, bare_dsn: str) -> None:
    answer = cli("doctor", "--dsn", bare_dsn)
    assert answer.code == 1
    assert finding(answer, "schema")["remedy"] == "trunkline db install"


def test_a_schema_of_somebody_else_is_no_installation(cli: Cli, bare_dsn: str) -> None:
    with psycopg.connect(bare_dsn) as connection:
        connection.execute("create schema trunkline")
    answer = cli("doctor", "--dsn", bare_dsn)
    assert [row["check"] for row in answer.rows if row["state"] == "fail"] == ["schema"]


def test_a_default_isolation_in_which_calls_are_refused_is_told(cli: Cli, dsn: str) -> None:
    options = "-c default_transaction_isolation=repeatable\\ read"
    found = finding(cli("doctor", "--dsn", make_conninfo(dsn, options=options)), "isolation")
    assert found["state"] == "warn"
    assert "repeatable read" in found["found"]
    with psycopg.connect(dsn) as connection:
        role = f'alter role "{connection.info.user}" '
    assert f"{role}set default_transaction_isolation = 'read committed'" in found["remedy"]


def test_a_database_that_takes_only_reads_is_told(cli: Cli, dsn: str) -> None:
    only_reads = make_conninfo(dsn, options="-c default_transaction_read_only=on")
    answer = cli("doctor", "--dsn", only_reads)
    assert answer.code == 1
    assert finding(answer, "connection")["found"] == "it takes only reads"
    refused = cli("log", "create", "orders", "--dsn", only_reads)
    assert refused.code == 1
    assert "a standby, or default_transaction_read_only" in refused.err


def test_an_encoding_that_takes_any_bytes_for_text_is_told(cli: Cli, server: AnyServer) -> None:
    with new_database(server, template="template0", encoding="SQL_ASCII") as name:
        found = finding(cli("doctor", "--dsn", server.dsn(name)), "connection")
    assert "SQL_ASCII" in found["found"]


def test_a_schema_that_an_upgrade_would_refuse_has_another_remedy(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    sql.execute("update trunkline.migration set checksum = 'x' where file = '001_log.sql'")
    assert finding(cli("doctor"), "schema")["remedy"] == "Install the package again."
    sql.execute("update trunkline.migration set version = '99.0' where file like 'functions/%'")
    assert finding(cli("doctor"), "schema")["remedy"] == "Install the newer trunkline package."


def test_a_changed_schema_is_told(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    sql.execute("drop function trunkline.ring_list()")
    answer = cli("doctor")
    assert answer.code == 1
    assert finding(answer, "schema")["remedy"] == "trunkline db upgrade"
    assert states(answer)["rotation"] == "fail"
    assert states(answer)["leases"] == "ok"


def test_an_idle_session_that_blocks_others_is_named(cli: Cli, two_sessions: TwoSessions) -> None:
    cli("log", "create", "orders")
    two_sessions.a.execute(APPEND)
    waiting = two_sessions.later(two_sessions.b, APPEND)
    two_sessions.blocked_by(two_sessions.a, two_sessions.b)
    answer = cli("doctor", "--older-than", "0s")
    holder, waiter = (s.info.backend_pid for s in (two_sessions.a, two_sessions.b))
    assert answer.code == 1
    found = finding(answer, "sessions")
    assert found["state"] == "fail"
    assert f"pid {holder}" in found["found"]
    assert "idle in transaction" in found["found"]
    assert f"pid {waiter} waiting" in found["found"]
    assert "log_append" in found["found"]
    assert found["remedy"] == f"select pg_terminate_backend({holder})"
    assert states(cli("doctor", "--older-than", "1h"))["sessions"] == "ok"
    two_sessions.a.rollback()
    waiting.result(10)


def test_a_check_that_would_have_to_wait_stops_no_other(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, sql: psycopg.Connection[Any]
) -> None:
    monkeypatch.setattr("trunkline.core.doctor._PATIENCE", "100ms")
    with sql.transaction():
        sql.execute("lock table trunkline.ring in access exclusive mode")
        answer = cli("doctor")
    assert answer.code == 1
    assert "cannot be told" in finding(answer, "rotation")["found"]
    assert states(answer)["groups"] == "ok"


def test_a_dead_process_that_still_owns_something_is_named(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    process = uuid4()
    sql.execute("select trunkline._lease_renew(%s, 'ghost', now() - interval '1 hour')", [process])
    sql.execute(
        "insert into trunkline.owner (resource, epoch, process, since) values ('x', 1, %s, now())",
        [process],
    )
    found = finding(cli("doctor"), "leases")
    assert found["state"] == "warn"
    assert "ghost died" in found["found"]
    assert f"lease_end('{process}')" in found["remedy"]


def test_maintenance_that_never_ran_or_fails_is_told(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    never = finding(cli("doctor"), "maintenance")
    assert (never["state"], never["found"]) == ("warn", "it never ran")
    assert "trunkline up" in never["remedy"]
    sql.execute("update trunkline.duty set ran_at = now() - interval '1 day'")
    assert "ago" in finding(cli("doctor"), "maintenance")["found"]
    sql.execute(
        "update trunkline.duty set ran_at = now(), failed_at = now(), error = 'no space left'"
        " where duty = 'rings_rotate'"
    )
    answer = cli("doctor")
    assert answer.code == 1
    assert "no space left" in finding(answer, "maintenance")["found"]


def test_rotation_that_is_held_back_names_who_holds_it(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    sql.execute(
        "update trunkline.ring set held_since = now(), held_by = 'pid 42 (dump)'"
        " where ring = 'cursor'"
    )
    assert "pid 42 (dump)" in finding(cli("doctor"), "rotation")["found"]


def test_groups_far_behind_and_beyond_retention_are_told(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    cli("log", "create", "orders")
    cli("log", "consume", "orders", "-g", "slow", "--wait", "0")
    sql.execute("select trunkline.log_append('orders', 0, array_fill('x'::bytea, array[50]))")
    behind = finding(cli("doctor", "--far-behind", "10"), "groups")
    assert behind["state"] == "warn"
    assert "slow is 50 messages behind" in behind["found"]
    assert "trunkline log seek orders --group slow --to latest" in behind["remedy"]
    cli("log", "trim", "orders", "--before", "40", "--yes")
    answer = cli("doctor")
    assert answer.code == 1
    lost = finding(answer, "groups")
    assert "wants 1, but retention left 40" in lost["found"]
    assert "trunkline log seek orders --group slow --to earliest" in lost["remedy"]


def test_what_left_before_a_group_had_read_it_is_told(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    for name in ("broker.hold", "broker.retention", "maintain.settle"):
        sql.execute("select trunkline.config_set(%s, '0')", [name])
    sql.execute("select trunkline.config_set('ring.delivery.rotate_every', '1 ms')")
    sql.execute("select trunkline.broker_subscribe('billing', '{\"topic\": \"order\"}')")
    sql.execute("select trunkline.broker_publish('order', '1')")
    sql.execute("call trunkline.broker_work()")
    for _ in range(2):
        sql.execute("select trunkline.rings_rotate()")

    (group,) = cli("broker", "groups").rows
    assert (group["lost"], group["lost_first"], group["lost_last"]) == (1, 1, 1)
    answer = cli("doctor")
    assert answer.code == 0
    lost = finding(answer, "broker")
    assert "group billing lost deliveries 1 to 1" in lost["found"]
    assert "broker.hold" in lost["remedy"]
    assert "trunkline broker group-delete billing" in lost["remedy"]


def test_dead_letters_are_told(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    cli("log", "create", "orders.dead")
    sql.execute("select trunkline.log_append('orders.dead', 0, array['x'::bytea])")
    told = finding(cli("doctor"), "dead letters")
    assert "1 in orders.dead" in told["found"]
    look = told["remedy"].removeprefix("Look: trunkline ")
    assert len(cli(*look.split()).rows) == 1
    cli("log", "dead", "discard", "orders", "1", "--yes")
    sql.execute("select trunkline.log_append('orders.dead', 0, array['y'::bytea])")
    cli("log", "trim", "orders.dead", "--before", "3", "--yes")  # past what nobody settled
    found = cli("doctor").rows
    assert "dead letters" not in [row["check"] for row in found]
    assert "dead-letters" not in str(found)


def test_events_too_large_for_the_log_are_told(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    cli("log", "create", "orders")
    sql.execute("select trunkline.config_set('broker.forward_bytes', '65536')")
    sql.execute("select trunkline.broker_publish('orders', to_jsonb(repeat('x', 70000)))")
    sql.execute("select trunkline.broker_tick()")
    sql.execute("select trunkline.broker_match(), trunkline.broker_forward('orders')")
    found = next(row for row in cli("doctor").rows if "too large" in row["found"])
    assert found["state"] == "warn"
    assert "1 event of orders is too large" in found["found"]
    assert "trunkline broker unforwarded orders" in found["remedy"]


def test_keys_set_aside_and_touches_that_nobody_takes_are_told(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    sql.execute("create table orders (id int primary key)")
    sql.execute("select trunkline.tube_ensure('search')")
    sql.execute("select trunkline.tube_attach('search', 'orders')")
    sql.execute("insert into orders values (1)")
    sql.execute("select trunkline.tube_tick()")
    assert states(cli("doctor"))["tubes"] == "ok"
    sql.execute("update trunkline.tick set at = at - interval '1 hour'")
    waiting = finding(cli("doctor"), "tubes")
    assert "touches of search wait since 60 minutes; 0 of" in waiting["found"]
    sql.execute(
        "insert into trunkline.tube_parked (tube_id, attachment, shard, key, attempts, error)"
        " select tube_id, attachment, 0, '1', 8, 'no' from trunkline.tube_table"
    )
    parked = finding(cli("doctor"), "tubes")
    assert "1 key of search kept failing and was set aside" in parked["found"]
    assert "trunkline tube parked search" in parked["remedy"]


def test_segments_that_nobody_archives_are_told(cli: Cli, sql: psycopg.Connection[Any]) -> None:
    sql.execute("select trunkline.log_create('orders', archive => true)")
    sql.execute(APPEND)
    sql.execute("select trunkline._log_roll(topic_id, 0) from trunkline.log_topic")
    assert "archive" not in states(cli("doctor"))
    sql.execute("update trunkline.log_segment set last_at = last_at - interval '3 days'")
    assert "1 segment of orders waits to be archived" in finding(cli("doctor"), "archive")["found"]


def test_lost_durability_and_missing_roles_are_warnings(
    own_server: Callable[..., Server], capfd: pytest.CaptureFixture[str]
) -> None:
    server = own_server(fsync="off", synchronous_commit="off")
    cli = caller(capfd)
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute("create role humble login")
        connection.execute("create database humble owner humble")
    humble = make_conninfo(server.dsn("humble"), user="humble")
    installed = cli("db", "install", "--dsn", humble)
    assert installed.code == 0
    assert "create role trunkline_reader nologin" in installed.err
    answer = cli("doctor", "--dsn", humble)
    assert answer.code == 0
    assert states(answer)["durability"] == states(answer)["roles"] == "warn"
    told = [row["found"] for row in answer.rows if row["check"] == "durability"]
    assert [text.split()[0] for text in told] == ["fsync", "synchronous_commit"]
    assert migrate.plan(humble).current


def test_commits_that_wait_for_a_standby_that_is_not_there_are_told(
    own_server: Callable[..., Server],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trunkline.core.doctor._IMPATIENT", timedelta(0))
    dsn = own_server(synchronous_standby_names="nobody").dsn("postgres")
    migrate.install(make_conninfo(dsn, options="-c synchronous_commit=local"))
    cli = caller(capfd)
    with open_two_sessions(dsn) as sessions:
        sessions.a.execute("create table waits ()")
        sessions.later(sessions.a, "commit")

        def told() -> None:
            answer = cli("doctor", "--dsn", dsn)
            found = [row for row in answer.rows if row["check"] == "sessions"]
            assert [row["state"] for row in found] == ["fail"], answer.out
            assert "1 commit waits for a synchronous standby" in found[0]["found"]
            assert "'nobody'" in found[0]["remedy"]

        wait_until(told)


def parade(sql: psycopg.Connection[Any], *, here: bool = True) -> None:
    """Two zones, of which the western one has just been heard and has asked."""
    for zone in ("east", "west"):
        sql.execute("select trunkline.kv_instance_put(%s, 'main', 'dbname=x')", [zone])
    if here:
        sql.execute("select trunkline.kv_instance_here('east', 'main')")
    sql.execute("select trunkline.kv_heard('west/main', 1, 0, true, '0')")
    sql.execute("update trunkline.kv_peer set asked_origin = 1, asked_at = now()")
    state = '{"origin": 1, "life": 1, "copied": true}'
    sql.execute(
        "select trunkline._cursor_move(trunkline._cursor_hold('kv:from:west/main'), 0, %s)", [state]
    )


def test_a_database_that_belongs_to_no_parade_is_fine(cli: Cli) -> None:
    found = [row for row in cli("doctor").rows if row["check"] == "kv"]
    assert [(row["state"], row["found"]) for row in found] == [("ok", "it stands alone")]


def test_a_parade_whose_members_hear_each_other_is_fine(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    parade(sql)
    found = [row for row in cli("doctor").rows if row["check"] == "kv"]
    assert [(row["state"], row["found"]) for row in found] == [("ok", "1 peer, none far behind")]


def test_a_parade_that_does_not_know_which_of_it_this_is_is_told(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    parade(sql, here=False)
    found = finding(cli("doctor"), "kv")
    assert "none is this database" in found["found"]
    assert "trunkline kv instance here" in found["remedy"]


@pytest.mark.parametrize(
    ("sickness", "state", "said"),
    [
        ("delete from trunkline.kv_peer; delete from trunkline.cursor", "warn", "was never heard"),
        ("update trunkline.kv_peer set error = 'it burns'", "warn", "is away, all of it was here"),
        ("update trunkline.kv_peer set level_at = null, error = 'no'", "warn", "was never copied"),
        ("update trunkline.kv_peer set level_at = null", "warn", "not copied to its end yet"),
        (
            "update trunkline.kv_peer set head = 7, level_at = now() - interval '3 hours'",
            "warn",
            "7 known changes of west/main are not here yet; all of it was here 3 hours ago",
        ),
        ("update trunkline.kv_peer set head = 200000", "warn", "200000 known changes"),
        ("update trunkline.kv_peer set asked_at = null", "warn", "has never asked"),
        (
            "update trunkline.kv_peer set asked_at = now() - interval '3 days'",
            "warn",
            "has not asked for 3 days",
        ),
        (
            "update trunkline.kv_peer set skew = '5 minutes'",
            "warn",
            "5 minutes ahead of that of west/main; both zones write",
        ),
        (
            "select trunkline._kv_take_in(jsonb_build_array(jsonb_build_object("
            "'namespace', 'default', 'key', 'k', 'value', '[1]'::jsonb, 'origin', 1,"
            " 'counted_stamp', 0, 'stamp',"
            " (extract(epoch from now() + interval '50 hours') * 1000000)::bigint)), 1)",
            "warn",
            "1 key is held back: the clock that stamped it is up to 2 days ahead",
        ),
        (
            "insert into trunkline.kv_held select 'default', 'k', (state ->> 'origin')::bigint, 1,"
            " '{}', now() - interval '3 minutes', 'lock' from trunkline.cursor"
            " where state ? 'origin'",
            "warn",
            "1 key of west/main waits for a lock here, the first for 3 minutes: held by",
        ),
        ("update trunkline.kv_life set whole = false", "warn", "this copy is not whole"),
    ],
)
def test_what_keeps_zones_apart_is_told(
    cli: Cli, sql: psycopg.Connection[Any], sickness: str, state: str, said: str
) -> None:
    parade(sql)
    for statement in sickness.split("; "):
        sql.execute(statement)
    found = finding(cli("doctor"), "kv")
    assert said in found["found"]
    assert found["state"] == state
