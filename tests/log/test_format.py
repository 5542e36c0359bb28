"""Record batches in SQL are those of the golden files and of the Python side, byte by byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import sql
from tests.fixtures.asking import Session, ask, call, column
from tests.log.steps import TOPIC, append, create, create_anew, current_segment, fetch, problems

from trunkline.log.batches import StoredBatch, pack, partition_of
from trunkline.log.decoding import decode

GOLDEN = Path(__file__).parent / "golden"
BYTES = (
    "value_ends",
    "payload",
    "value_valid",
    "key_ends",
    "keys",
    "key_valid",
    "deltas",
    "event_ids",
    "headers",
)
FROZEN = ["deltas", "event_ids"]
steady = settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

texts = st.text(
    alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6
)
header = st.none() | st.dictionaries(texts, texts | st.integers(-(2**40), 2**40) | st.none())
cells = st.none() | st.binary(max_size=9)


class Golden:
    """One golden file: a row as it is stored, and the messages that it stands for."""

    def __init__(self, name: str):
        self.name = name
        content = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
        self.row: dict[str, Any] = content["row"]
        for column_name in BYTES:
            if self.row[column_name] is not None:
                self.row[column_name] = bytes.fromhex(self.row[column_name])
        self.messages: list[dict[str, Any]] = content["messages"]

    @property
    def plain(self) -> bool:
        return self.row["codec"] == 0

    @property
    def appendable(self) -> bool:
        """Whether a client could have sent it: not compacted, not forwarded, looked at whole."""
        return all(self.row[name] is None for name in FROZEN) and self.row["take"] == self.row["n"]

    def column(self, name: str) -> list[Any]:
        values = [message[name] for message in self.messages]
        if name in ("value", "key"):
            return [None if value is None else bytes.fromhex(value) for value in values]
        return values


def golden_files(**wanted: bool) -> pytest.MarkDecorator:
    """Run a test with all golden files that are as wanted."""
    names = sorted(path.stem for path in GOLDEN.glob("*.json") if path.stem != "key_hash")
    fit = [
        golden
        for golden in map(Golden, names)
        if all(getattr(golden, name) == value for name, value in wanted.items())
    ]
    return pytest.mark.parametrize("golden", fit, ids=lambda golden: golden.name)


@pytest.fixture
def topic(session: Session, golden: Golden) -> str:
    tombstones = golden.row["value_valid"] is not None
    return create(session, compact=tombstones and golden.row["key_valid"] is None)


def columns(batch: StoredBatch) -> dict[str, Any]:
    """The bytes of a batch, with headers as JSON: their spelling is free."""
    found = {name: getattr(batch, name) for name in BYTES}
    if found["headers"] is not None and batch.codec == 0:
        found["headers"] = json.loads(found["headers"])
    return found


def test_the_columns_of_a_record_batch_are_frozen(session: Session) -> None:
    named = column(
        session,
        """select attname from pg_attribute
            where attrelid = 'trunkline.log_batch'::regclass and attnum > 0 order by 1""",
    )
    fields = {field for field in StoredBatch.__slots__ if field not in ("skip", "take")}
    assert set(named) == fields | {"producer_id", "producer_seq"}
    stored_out_of_line = """select count(*) from pg_attribute
        where attrelid = 'trunkline.log_batch'::regclass and atttypid = 'bytea'::regtype
          and attstorage = 'e'"""
    assert ask(session, stored_out_of_line) == len(BYTES)


@golden_files()
@pytest.mark.usefixtures("topic")
def test_a_stored_row_is_read_as_the_golden_messages(session: Session, golden: Golden) -> None:
    row = {name: value for name, value in golden.row.items() if name not in ("skip", "take")}
    names, segment = list(row), current_segment(session).removeprefix("trunkline.")
    session.execute(
        sql.SQL("insert into trunkline.{} ({}) values ({})").format(
            sql.Identifier(segment),
            sql.SQL(", ").join(map(sql.Identifier, names)),
            sql.SQL(", ").join(map(sql.Placeholder, names)),
        ),
        row,
    )
    offsets = golden.column("offset")
    window = {"max_messages": len(offsets)}
    (batch,) = fetch(session, offsets[0], **window)
    assert columns(batch) == columns(StoredBatch(**golden.row))
    assert (batch.skip, batch.take) == (golden.row["skip"], golden.row["take"])
    decoded = decode(batch)
    assert decoded.offsets == offsets
    assert decoded.values == golden.column("value")
    assert decoded.keys == golden.column("key")
    assert decoded.headers == golden.column("headers")
    assert decoded.event_ids == golden.column("event_id")
    if golden.plain:
        rows = call(session, "log_read", topic=TOPIC, partition=0, from_offset=offsets[0], **window)
        assert [row[0] for row in rows] == offsets
        assert [row[2] for row in rows] == golden.column("key")
        assert [row[3] for row in rows] == golden.column("value")
        assert [row[4] for row in rows] == golden.column("headers")


@golden_files(plain=True, appendable=True)
@pytest.mark.usefixtures("topic")
def test_what_sql_appends_is_stored_as_the_golden_row(session: Session, golden: Golden) -> None:
    append(
        session,
        *golden.column("value"),
        keys=golden.column("key"),
        headers=golden.column("headers"),
    )
    (batch,) = fetch(session, 1)
    assert (batch.format, batch.codec, batch.n) == (1, 0, golden.row["n"])
    assert columns(batch) == columns(StoredBatch(**golden.row))


@golden_files(appendable=True)
@pytest.mark.usefixtures("topic")
def test_a_golden_batch_that_a_client_sends_is_stored_unchanged(
    session: Session, golden: Golden
) -> None:
    sent = {name: golden.row[name] for name in BYTES if name not in FROZEN}
    sent |= {name: golden.row[name] for name in ("n", "codec")}
    ((first, last, at),) = call(session, "log_append_batch", topic=TOPIC, partition=0, **sent)
    (batch,) = fetch(session, 1)
    assert (batch.base_offset, batch.last_offset, batch.at) == (first, last, at)
    assert {name: getattr(batch, name) for name in sent} == sent
    assert decode(batch).values == golden.column("value")
    assert problems(session) == []


@steady
@given(data=st.data(), n=st.integers(1, 20))
def test_sql_and_python_pack_alike(session: Session, data: st.DataObject, n: int) -> None:
    """Any values with a key for each, as a compacted topic takes them; or none of them null."""
    compacted = data.draw(st.booleans())
    full = st.lists(st.binary(max_size=9), min_size=n, max_size=n)
    some = st.lists(cells, min_size=n, max_size=n)
    values = data.draw(some if compacted else full)
    keys = data.draw(full if compacted else some | st.none())
    headers = data.draw(st.none() | st.lists(header, min_size=n, max_size=n))
    create_anew(session, compact=compacted)

    append(session, *values, keys=keys, headers=headers)
    packed = pack(values, keys=keys, headers=headers)
    sent = {name: getattr(packed, name) for name in BYTES if name not in FROZEN}
    call(session, "log_append_batch", topic=TOPIC, partition=0, n=n, codec=0, **sent)

    by_sql, by_python = fetch(session, 1)
    assert columns(by_sql) == columns(by_python)
    rows = call(session, "log_read", topic=TOPIC)
    assert [row[3] for row in rows] == values * 2
    assert [row[2] for row in rows] == (keys or [None] * n) * 2
    assert [row[4] for row in rows] == (headers or [None] * n) * 2


def test_keys_go_to_the_same_partition_in_sql_and_python(session: Session) -> None:
    vectors = json.loads((GOLDEN / "key_hash.json").read_text("utf-8"))
    assert vectors
    for vector in vectors:
        key = bytes.fromhex(vector["key"])
        expected = vector["partition"]
        found = ask(
            session, "select trunkline.log_partition_of(%s, %s)", [key, vector["partitions"]]
        )
        assert found == expected == partition_of(key, vector["partitions"])


@steady
@given(
    keys=st.lists(st.binary(max_size=40), min_size=1, max_size=20), partitions=st.integers(1, 1024)
)
def test_any_key_goes_to_the_same_partition_in_sql_and_python(
    session: Session, keys: list[bytes], partitions: int
) -> None:
    found = column(
        session,
        """select trunkline.log_partition_of(u.key, %s)
             from unnest(%s::bytea[]) with ordinality u (key, place) order by u.place""",
        [partitions, keys],
    )
    assert found == [partition_of(key, partitions) for key in keys]
