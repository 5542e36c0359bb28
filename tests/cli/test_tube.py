"""``trunkline tube``: what people type, and what they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Cli, Start


@pytest.fixture(autouse=True)
def tube(sql: psycopg.Connection[Any]) -> None:
    sql.execute("create schema app")
    sql.execute("create table app.products (id bigint primary key, name text)")
    sql.execute("create table app.bare (id bigint)")
    sql.execute("select trunkline.tube_ensure('search', 2)")
    sql.execute("select trunkline.tube_attach('search', 'app.products')")


@pytest.mark.parametrize(
    "words",
    [
        "stats serch",
        "parked serch",
        "parked serch --retry",
        "backfill serch",
        "backfill serch --status",
        "downstream serch",
        "worker serch --once",
        "drop serch --yes",
    ],
)
def test_a_tube_that_is_not_there_is_never_shown_as_an_empty_one(cli: Cli, words: str) -> None:
    answer = cli("tube", *words.split())
    assert (answer.code, answer.out) == (3, "")
    assert 'there is no tube "serch"' in answer.err
    assert "trunkline tube list" in answer.err


def test_what_has_nothing_to_show_is_an_empty_list(cli: Cli) -> None:
    for words in ("parked", "parked search", "backfill search --status", "downstream search"):
        answer = cli("tube", *words.split())
        assert (answer.code, answer.rows) == (0, [])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("ensure t --lanes 99999999999", 2, "lanes is out of range, got 99999999999"),
        ("backfill search --chunk 99999999999", 2, "chunk is out of range"),
        ("backfill search --pause --resume", 2, "--pause and --resume"),
        ("attach search app..products", 2, "schema.table"),
        ("attach search app.bare", 2, "Name the columns that identify a row in --key."),
        ("touch search app.products 1 --payload NaN", 2, "--payload is not JSON"),
        ("touch search app.products 1 --payload {", 2, "--payload is not JSON"),
        ("worker search --once", 3, "trunkline tube downstream search postgres"),
    ],
)
def test_bad_input_is_told_with_what_was_expected(
    cli: Cli, words: str, code: int, said: str
) -> None:
    answer = cli("tube", *words.split())
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("kafka", 'there is no downstream "kafka"'),
        ("postgres --option tabel=app.copy", 'has no option "tabel".\n hint: Known: dsn, table'),
        ("topic", 'needs the option "topic"'),
        ("postgres --option worker.speed=9", 'no worker option "speed"'),
    ],
)
def test_options_that_a_downstream_does_not_know_are_refused_when_they_are_set(
    cli: Cli, words: str, said: str
) -> None:
    answer = cli("tube", "downstream", "search", *words.split())
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert cli("tube", "downstream", "search").rows == []


QUERY = "enrich=select k, k from unnest(%(keys)s) k"


def test_options_of_query_pace_and_environment_are_kept_as_they_are(cli: Cli) -> None:
    words = ("--option", QUERY, "--option", "worker.batch=9", "--option", "dsn=${NO}")
    [row] = cli("tube", "downstream", "search", "postgres", *words).rows
    assert row["options"] == {"enrich": QUERY[7:], "worker.batch": 9, "dsn": "${NO}"}


def test_a_worker_that_finds_lanes_in_other_hands_says_so(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    cli("tube", "downstream", "search", "postgres", "--option", "table=app.copy")
    sql.execute("insert into app.products values (1, 'apple')")
    sql.execute("select trunkline.lease_renew(gen_random_uuid(), 'other')")
    sql.execute("select trunkline.tube_join('search', process) from trunkline.lease")
    held = cli("tube", "worker", "search", "--once")
    assert held.code == 0
    assert "Delivered 0 keys.\nOthers work 2 of its 2 lanes" in held.err

    sql.execute("select trunkline.lease_end(process) from trunkline.lease")
    alone = cli("tube", "worker", "search", "--once")
    assert alone.err == "Delivered 1 key.\n"


def test_text_that_is_not_unicode_is_refused_in_words(start: Start, dsn: str) -> None:
    process = start("tube", "ensure", "a\udcff", TRUNKLINE_DSN=dsn)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 2
    assert said.startswith("error: text must be Unicode")


def test_a_drop_asks_and_does_nothing_without_an_answer(cli: Cli) -> None:
    refused = cli("tube", "drop", "search")
    assert refused.code == 2
    assert "--yes" in refused.err
    assert [row["tube"] for row in cli("tube", "list").rows] == ["search"]
    assert cli("tube", "drop", "search", "--yes").err == "Dropped search.\n"


def test_an_option_of_a_wrong_type_is_refused_when_it_is_stored(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    refused = cli("tube", "downstream", "search", "postgres", "--option", "worker.park_after=x")
    assert refused.code != 0
    assert 'worker.park_after takes a whole number from 1, got "x"' in refused.err
    for options in ('{"worker.park_after": "2"}', '{"colour": 1}', '{"create": "yes"}'):
        with pytest.raises(psycopg.Error) as caught:
            sql.execute("select trunkline.tube_downstream('search', 'postgres', %s)", [options])
        assert caught.value.sqlstate == "TL422"
