"""The folder of a topic's archive: whose it is, what in it is kept, what of it can be written."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.log.steps import append, create, seal

import trunkline
from trunkline.core.errors import BadRequest, Conflict
from trunkline.log import calls
from trunkline.spark import connection
from trunkline.spark.jobs.archive_copy import CopyTask, file_name
from trunkline.spark.jobs.archive_delta import delta_files
from trunkline.spark.jobs.archive_folder import claim_folder, remove_orphans

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.asking import Session

    from trunkline.log.models import SealedSegment, Topic

MARK = "_trunkline.json"


@pytest.fixture
def topic(dsn: str) -> Topic:
    with trunkline.connect_sync(dsn) as tl:
        return tl.log.create("orders", archive=True)


@pytest.fixture
def maker(dsn: str) -> Iterator[Session]:
    with closing(psycopg.connect(dsn, autocommit=True)) as session:
        yield session


@pytest.fixture
def segment(dsn: str, maker: Session) -> SealedSegment:
    create(maker, archive=True)
    append(maker, b"a", b"b")
    seal(maker)
    (found,) = connection.db(dsn).run(calls.archivable("orders"))
    return found


def test_a_folder_is_claimed_once_and_known_again(topic: Topic, tmp_path: Path) -> None:
    for _ in range(2):
        claim_folder(f"{tmp_path}/a lake/orders", topic)
    assert [path.name for path in (tmp_path / "a lake/orders").iterdir()] == [MARK]


def test_a_folder_with_something_else_in_it_is_left_alone(topic: Topic, tmp_path: Path) -> None:
    path = str(tmp_path / "orders")
    write_deltalake(path, pa.table({"id": [1]}))
    with pytest.raises(Conflict, match="is not empty and does not say") as caught:
        claim_folder(path, topic)
    assert not (tmp_path / "orders" / MARK).exists()
    said = caught.value.hint.partition("must say: ")[2]
    (tmp_path / "orders" / MARK).write_text(said)
    claim_folder(path, topic)


@pytest.mark.parametrize("said", [b"", b'{"topic": "ord', b"\xff\xfe", b"[1]"])
def test_a_mark_that_a_run_did_not_finish_is_made_anew_unless_the_folder_is_used(
    topic: Topic, tmp_path: Path, said: bytes
) -> None:
    (tmp_path / MARK).write_bytes(said)
    claim_folder(str(tmp_path), topic)
    assert json.loads((tmp_path / MARK).read_text())["topic_id"] == topic.topic_id
    (tmp_path / MARK).write_bytes(said)
    (tmp_path / "0").mkdir()
    with pytest.raises(Conflict, match="is not empty"):
        claim_folder(str(tmp_path), topic)


def test_a_location_that_cannot_be_written_is_told(topic: Topic, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadRequest, match=r"file/lake cannot be written: .*Not a directory"):
        claim_folder(f"{tmp_path}/file/lake", topic)


def test_a_copy_that_cannot_be_written_says_so_and_does_not_fail_the_job(
    dsn: str, segment: SealedSegment, tmp_path: Path
) -> None:
    (tmp_path / "0").touch()  # where the folder of the partition belongs
    task = CopyTask(dsn, str(tmp_path), 1, (segment,))
    (row,) = task(iter([pa.record_batch({"id": [0]})]))
    assert "cannot be written" in row.column("error")[0].as_py()
    assert row.column("path")[0].as_py() is None


def test_the_copy_of_a_topic_that_was_deleted_says_so(
    dsn: str, maker: Session, segment: SealedSegment, tmp_path: Path
) -> None:
    maker.execute("select trunkline.log_delete('orders')")
    (row,) = CopyTask(dsn, str(tmp_path), 1, (segment,))(iter([pa.record_batch({"id": [0]})]))
    assert 'no topic "orders"' in row.column("error")[0].as_py()


def test_a_file_that_only_the_delta_table_has_is_kept_whatever_the_run_writes(
    segment: SealedSegment, tmp_path: Path
) -> None:
    location = str(tmp_path)
    write_deltalake(location, pa.table({"id": [1]}))
    (listed,) = delta_files(location)
    for name in (file_name(segment, 1), file_name(segment, 1)):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((tmp_path / listed).read_bytes())
        os.utime(tmp_path / name, (1, 1))
    log = tmp_path / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace(listed, name))
    removed = remove_orphans(location, incarnation=1, before=datetime.now(UTC), manifest=set)
    assert removed == 1
    assert delta_files(location) == {name}
    assert (tmp_path / name).exists()


def test_no_password_is_said_of_a_copy() -> None:
    task = CopyTask("postgresql://me:secret@host/db", "/lake/orders", 1, ())
    assert "secret" not in repr(task)
