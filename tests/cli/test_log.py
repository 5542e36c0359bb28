"""``trunkline log``: topics, groups and upkeep."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.log.archiving import archive, drop_archived
from tests.log.steps import claim, create, fill, seal, settle

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from tests.cli.conftest import Cli


@pytest.fixture
def dsn(swept_dsn: str) -> str:
    return swept_dsn


@pytest.fixture
def numbers(cli: Cli, tmp_path: Path) -> str:
    """A topic of two partitions with ten messages each."""
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number}\n" for number in range(1, 11)))
    assert cli("log", "create", "numbers", "--partitions", "2").code == 0
    for partition in ("0", "1"):
        assert cli("log", "append", "numbers", "-f", str(lines), "-p", partition).code == 0
    return "numbers"


def test_a_topic_is_created_listed_described_and_deleted(cli: Cli, numbers: str) -> None:
    again = cli("log", "create", numbers, "--partitions", "2")
    assert again.code == 0
    assert again.rows["partitions"] == 2
    listed = cli("log", "list").rows
    assert [(row["topic"], row["messages"]) for row in listed] == [(numbers, 20)]
    described = cli("log", "describe", numbers).rows
    assert [(row["first_offset"], row["last_offset"]) for row in described] == [(1, 10), (1, 10)]
    assert cli("log", "delete", numbers, "--yes").code == 0
    assert cli("log", "list").rows == []
    assert cli("log", "delete", numbers, "--yes").code == 3


def test_settings_are_given_as_people_write_them(cli: Cli) -> None:
    made = cli("log", "create", "kept", "--retention", "30 minutes", "--retention-bytes", "1GiB")
    assert made.rows["retention"] == "30m"
    assert made.rows["retention_bytes"] == 2**30
    changed = cli("log", "alter", "kept", "--retention", "7d", "--retention-bytes", "forever")
    assert (changed.rows["retention"], changed.rows["retention_bytes"]) == ("7d", None)
    forever = cli("log", "alter", "kept", "--retention", "forever", "--codec", "zstd")
    assert (forever.rows["retention"], forever.rows["codec"]) == (None, "zstd")


def test_more_partitions_come_with_a_warning_about_keys(cli: Cli) -> None:
    cli("log", "create", "keyed")
    changed = cli("log", "alter", "keyed", "--partitions", "3")
    assert changed.rows["partitions"] == 3
    assert "other partitions" in changed.err
    assert cli("log", "alter", "keyed", "--partitions", "2").code == 2


def test_settings_that_make_no_sense_are_refused(cli: Cli) -> None:
    cli("log", "create", "kept")
    for words, said in (
        (["--retention", "soon"], "30s, 15 minutes"),
        (["--retention-bytes", "much"], "500MB"),
        (["--codec", "rar"], '"none" or "zstd"'),
        ([], "nothing to change"),
    ):
        refused = cli("log", "alter", "kept", *words)
        assert refused.code == 2
        assert said in refused.err


def test_groups_are_shown_moved_and_forgotten(cli: Cli, numbers: str) -> None:
    cli("log", "consume", numbers, "--group", "g", "--limit", "4", "--wait", "0")
    assert cli("log", "lag", numbers).rows[0]["lag"] == 16
    assert {row["mode"] for row in cli("log", "groups", numbers).rows} == {"assigned"}
    assert cli("log", "lag", "--group", "g", "--csv").out.splitlines()[0].startswith("topic,")
    moved = cli("log", "seek", numbers, "--group", "g", "--to", "latest")
    assert moved.rows == [
        {"partition": 0, "next_offset": 11},
        {"partition": 1, "next_offset": 11},
    ]
    assert cli("log", "lag", numbers).rows[0]["lag"] == 0
    back = cli("log", "seek", numbers, "--group", "g", "--to", "1h ago", "--partition", "1")
    assert back.rows == [{"partition": 1, "next_offset": 1}]
    assert cli("log", "seek", numbers, "--group", "g", "--to", "soon").code == 2
    assert cli("log", "seek", numbers, "--group", "nobody", "--to", "latest").code == 3
    assert cli("log", "group-delete", numbers, "--group", "g", "--yes").code == 0
    assert cli("log", "groups", numbers).rows == []
    assert cli("log", "groups", "nothing").code == 3


def test_dead_letters_are_listed_shown_tried_again_and_discarded(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    create(sql)
    fill(sql, 4)
    claimed = claim(sql, 4, timedelta(minutes=1))
    assert claimed is not None
    settle(sql, "bury", claimed, reason="out of paper")
    listed = cli("log", "dead", "list").rows
    assert [(row["letter"], row["topic"], row["group_name"]) for row in listed] == [
        (letter, "orders", "readers") for letter in (4, 3, 2, 1)
    ]
    shown = cli("log", "dead", "show", "orders", "2").rows
    assert (shown["value"], shown["offset"], shown["reason"]) == ("1", 2, "out of paper")
    assert shown["headers"]["dead"]["attempts"] == 1
    assert cli("log", "dead", "retry", "orders", "2", "9").code == 3  # all of them or none
    assert "1 dead letter is tried again" in cli("log", "dead", "retry", "orders", "2").err
    gone = cli("log", "dead", "show", "orders", "2")
    assert (gone.code, "trunkline log dead list" in gone.err) == (3, True)
    assert "1 dead letter is discarded" in cli("log", "dead", "discard", "orders", "1", "--yes").err
    again = cli("log", "dead", "retry", "orders", "--group", "readers")
    assert "2 dead letters are tried again" in again.err
    assert cli("log", "dead", "list", "orders").rows == []
    values = cli("log", "read", "orders", "--print", "value").rows
    assert [row["value"] for row in values] == ["0", "1", "2", "3", "1", "2", "3"]
    assert cli("log", "dead", "retry", "orders").code == 2
    assert cli("log", "dead", "list", "nothing").code == 3


def test_what_is_trimmed_is_gone(cli: Cli, numbers: str) -> None:
    trimmed = cli("log", "trim", numbers, "--partition", "0", "--before", "8", "--yes")
    assert trimmed.rows == [{"partition": 0, "first_offset": 8}]
    gone = cli("log", "read", numbers, "--partition", "0", "--from", "1")
    assert gone.code == 1
    assert "starts at 8" in gone.err
    assert len(cli("log", "read", numbers, "--partition", "0").rows) == 3
    assert cli("log", "trim", numbers, "--before", "8").code == 2
    assert cli("log", "trim", numbers, "--partition", "0", "--before", "99", "--yes").code == 2
    everything = cli("log", "trim", numbers, "--before", "latest", "--yes")
    assert [row["first_offset"] for row in everything.rows] == [11, 11]


def test_a_compacted_topic_keeps_the_last_value_of_a_key(cli: Cli, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a:1\nb:2\na:3\nb:\n")
    cli("log", "create", "settings", "--compact")
    words = ("log", "append", "settings", "-f", str(lines), "--key-separator", ":", "--tombstones")
    assert cli(*words).code == 0
    assert cli("log", "compact", "settings").rows == [{"partition": 0, "removed": 2}]
    left = cli("log", "read", "settings").rows
    assert [(row["key"], row["value"]) for row in left] == [("a", "3"), ("b", None)]
    cli("log", "create", "plain")
    assert cli("log", "compact", "plain").code == 2


def test_verify_answers_by_exit_code(cli: Cli, numbers: str, sql: psycopg.Connection[Any]) -> None:
    whole = cli("log", "verify", numbers)
    assert whole.code == 0
    assert [row["messages"] for row in whole.rows] == [10, 10]
    row = sql.execute("select segment_id from trunkline.log_partition limit 1").fetchone()
    assert row is not None
    sql.execute(f"update trunkline.log_segment_{row[0]} set n = n - 1")
    broken = cli("log", "verify", numbers)
    assert broken.code == 1
    assert any(row["problem"] for row in broken.rows)


def test_archived_and_hot_messages_are_read_as_one_topic(
    cli: Cli, sql: psycopg.Connection[Any], tmp_path: Path
) -> None:
    made = cli("log", "create", "orders", "--archive")
    assert made.rows["archive"] is True
    fill(sql, 3)
    seal(sql)
    fill(sql, 2)
    archive(sql, tmp_path)
    drop_archived(sql)
    (described,) = cli("log", "describe", "orders").rows
    assert (described["first_offset"], described["archived_first"]) == (4, 1)
    assert [row["offset"] for row in cli("log", "read", "orders").rows] == [1, 2, 3, 4, 5]
    assert [row["offset"] for row in cli("log", "read", "orders", "--from", "hot").rows] == [4, 5]
    assert [row["offset"] for row in cli("log", "read", "orders", "--last", "4").rows] == [
        2,
        3,
        4,
        5,
    ]
    consumed = cli(
        "log", "consume", "orders", "--group", "g", "--from", "earliest", "--wait", "0.2"
    )
    assert [row["offset"] for row in consumed.rows] == [1, 2, 3, 4, 5]
    assert cli("log", "alter", "orders", "--no-archive").rows["archive"] is False


def test_what_would_be_archived_is_said_without_spark(
    cli: Cli, sql: psycopg.Connection[Any], tmp_path: Path
) -> None:
    cli("log", "create", "orders", "--archive")
    fill(sql, 3)
    seal(sql)
    where = ("--location", str(tmp_path / "lake"), "--dry-run")
    (would,) = cli("spark", "archive", *where).rows
    assert (would["topic"], would["segments"], would["messages"]) == ("orders", 1, 3)
    assert would["location"] == str(tmp_path / "lake" / "orders")
    assert cli("spark", "archive", "orders", *where).rows == [would]
    assert cli("spark", "archive", "nowhere", *where).code == 3
    assert not (tmp_path / "lake").exists()


def test_a_topic_whose_name_leads_out_of_the_location_is_not_archived(
    cli: Cli, sql: psycopg.Connection[Any], tmp_path: Path
) -> None:
    cli("log", "create", "..", "--archive")
    fill(sql, 3, topic="..")
    seal(sql, "..")
    refused = cli("spark", "archive", "--location", str(tmp_path / "lake"), "--dry-run")
    assert (refused.code, refused.out) == (2, "")
    assert 'topic ".." cannot be archived' in refused.err


def test_an_empty_table_says_so(cli: Cli) -> None:
    answer = cli("log", "list", "--table")
    assert (answer.out, answer.err) == ("", "No topics.\n")
