"""`tl.log` as people use it: what goes in, what comes out, and what is refused."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
from datetime import UTC, datetime, timedelta
from math import nan
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import trunkline
from trunkline import (
    Appended,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    Outgoing,
    Platform,
    PositionTrimmed,
    TooLarge,
    TrunklineError,
    Unavailable,
)
from trunkline.core.service import Supervisor
from trunkline.log import calls
from trunkline.log.batches import Codec, partition_of
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from trunkline import Message

KEYED = [b"key-%d" % number for number in range(20)]
THREE = [b"a", b"b", b"c"]


@pytest.fixture
def dsn(log_dsn: str) -> str:
    """A database that the tests of this module share, swept after each of them."""
    return log_dsn


@pytest.fixture
async def tl(dsn: str) -> AsyncIterator[Platform]:
    async with trunkline.connect(dsn) as tl:
        yield tl


async def all_of(tl: Platform, topic: str, partition: int = 0, **options: Any) -> list[Message]:
    return [message async for message in tl.log.read(topic, partition, **options)]


async def values_of(tl: Platform, topic: str, partition: int = 0) -> list[bytes | None]:
    return [message.value for message in await all_of(tl, topic, partition)]


def chunked(*chunks: list[Any]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(chunk, pa.binary()) for chunk in chunks])


SHAPES: dict[str, tuple[Any, list[bytes]]] = {
    "one message": (b"a", [b"a"]),
    "text": ("å", ["å".encode()]),
    "a bytearray": (bytearray(b"ab"), [b"ab"]),
    "a memoryview": (memoryview(b"ab"), [b"ab"]),
    "one outgoing": (Outgoing("a"), [b"a"]),
    "a list": (THREE, THREE),
    "a tuple of all kinds": (
        (b"a", "b", bytearray(b"c"), Outgoing(b"d")),
        [b"a", b"b", b"c", b"d"],
    ),
    "a generator": ((value for value in THREE), THREE),
    "the empty message": ([b"", b""], [b"", b""]),
    "an arrow array": (pa.array(THREE), THREE),
    "an arrow array of text": (pa.array(["a", "b", "c"]), THREE),
    "a slice of an arrow array": (pa.array([b"x", *THREE, b"y"])[1:4], THREE),
    "chunks": (chunked([b"a"], [], [b"b", b"c"]), THREE),
    "a table": (pa.table({"value": THREE, "other": [1, 2, 3]}), THREE),
    "an arrow batch": (pa.record_batch({"value": THREE}), THREE),
    "more than a batch": ([b"x"] * 6_000, [b"x"] * 6_000),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_append_answers_with_the_offsets_of_every_shape(tl: Platform, shape: str) -> None:
    messages, expected = SHAPES[shape]
    await tl.log.create("orders")
    await tl.log.append("orders", b"before")
    answer = await tl.log.append("orders", messages)
    assert answer == [Appended("orders", 0, 2, 1 + len(expected))]
    assert await values_of(tl, "orders") == [b"before", *expected]


async def test_headers_that_python_cannot_hold_come_as_text_and_hide_no_others(
    tl: Platform,
) -> None:
    await tl.log.create("orders")
    large, deep = '{"n": %s}' % ("9" * 5000), '{"n": %s}' % ("[" * 2000 + "]" * 2000)
    plain = '{"a": "]}, \\"{[", "b": {"c": [1, null]}}'
    async with tl.transaction() as connection:
        await connection.execute(
            "select trunkline.log_append('orders', 0, %s, headers => %s::jsonb[])",
            [[b"a", b"b", b"c", b"d"], [plain, large, None, deep]],
        )
    headers = [message.headers for message in await all_of(tl, "orders")]
    assert headers == [json.loads(plain), {"unread": large}, None, {"unread": deep}]
    async with tl.log.consume("orders", "billing") as consumer:
        batch = await consumer.poll(timeout=5)
    assert batch is not None
    texts = batch.to_arrow().column("headers").to_pylist()
    assert texts[1:] == [large, None, deep]
    assert json.loads(texts[0]) == json.loads(plain)


async def test_headers_that_python_cannot_hold_are_buried_with_their_message(tl: Platform) -> None:
    await tl.log.create("orders")
    async with tl.transaction() as connection:
        await connection.execute(
            "select trunkline.log_append('orders', 0, %s, headers => %s::jsonb[])",
            [[b"a"], ['{"n": %s}' % ("9" * 5000)]],
        )
    options = {"mode": "shared", "max_attempts": 1}
    async with tl.log.consume("orders", "mailers", **options) as consumer:
        batch = await consumer.poll(timeout=5)
        assert batch is not None
        await batch.release(reason="no")
        assert await consumer.poll(timeout=0.1) is None
    (dead,) = await all_of(tl, "orders.dead")
    assert "9" * 5000 in (dead.headers or {})["unread"]
    (letter,) = await tl.log.dead_list("orders")
    assert letter.reason == "no"


@pytest.mark.parametrize("codec", list(Codec), ids=str)
async def test_keys_and_headers_come_out_as_they_went_in(tl: Platform, codec: Codec) -> None:
    await tl.log.create("orders", codec=str(codec))
    headers = [{"trace": "å"}, None, {"n": 1}]
    keys = [b"k", None, b""]
    await tl.log.append("orders", THREE, keys=keys, headers=headers)
    await tl.log.append(
        "orders", [Outgoing(*row) for row in zip(THREE, keys, headers, strict=True)]
    )
    texts = ['{"trace":"å"}', None, '{"n":1}']
    await tl.log.append("orders", pa.table({"value": THREE, "key": keys, "headers": texts}))
    await tl.log.append("orders", pa.array(THREE), keys=keys, headers=headers)
    await tl.log.append("orders", "a", keys="k", headers={"trace": "å"})
    found = [(m.value, m.key, m.headers) for m in await all_of(tl, "orders")]
    whole = list(zip(THREE, keys, headers, strict=True))
    assert found == [*(4 * whole), whole[0]]
    assert {row.codec for row in await tl.db.run(calls.fetch("orders", 0, 1))} == {codec}


async def test_a_key_goes_to_one_partition_whatever_it_comes_as(tl: Platform) -> None:
    await tl.log.create("orders", partitions=5)
    keys = [f"key-{n}" for n in range(40)]
    await tl.log.append("orders", keys, keys=keys)
    await tl.log.append("orders", keys, keys=[key.encode() for key in keys])
    await tl.log.append("orders", pa.table({"value": keys, "key": keys}))
    await tl.log.append("orders", pa.array(keys), keys=keys)
    async with tl.db.connection() as connection:
        texts = [key.encode() for key in keys]
        await connection.execute(
            "select trunkline.log_append('orders', null, %s, %s)", [texts, texts]
        )
    for partition in range(5):
        found = await all_of(tl, "orders", partition)
        mine = [key.encode() for key in keys if partition_of(key.encode(), 5) == partition]
        assert [message.key for message in found] == 5 * mine
        assert [message.value for message in found] == 5 * mine


async def test_each_partition_of_an_append_has_its_answer(tl: Platform) -> None:
    await tl.log.create("orders", partitions=5)
    keys = [str(n) for n in range(40)]
    answers = await tl.log.append("orders", keys, keys=keys)
    assert sum(answer.last_offset - answer.first_offset + 1 for answer in answers) == 40
    assert [answer.partition for answer in answers] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("messages", [THREE, pa.array(THREE)], ids=["list", "arrow"])
async def test_messages_without_a_key_stay_together_and_appends_take_turns(
    tl: Platform, messages: Any
) -> None:
    await tl.log.create("orders", partitions=3)
    answers = [await tl.log.append("orders", messages) for _ in range(3)]
    assert all(len(answer) == 1 for answer in answers)
    assert sorted(answer[0].partition for answer in answers) == [0, 1, 2]


async def test_a_partition_that_is_named_is_taken(tl: Platform) -> None:
    await tl.log.create("orders", partitions=3)
    assert await tl.log.append("orders", THREE, keys=["x", "y", "z"], partition=2) == [
        Appended("orders", 2, 1, 3)
    ]


MISUSES: dict[str, tuple[Any, dict[str, Any], type[trunkline.TrunklineError]]] = {
    "nothing": ([], {}, Invalid),
    "an empty array": (pa.array([], pa.binary()), {}, Invalid),
    "an empty table with keys": (
        pa.table({"value": pa.array([], pa.binary()), "key": pa.array([], pa.binary())}),
        {},
        Invalid,
    ),
    "a number": (7, {}, Invalid),
    "a list of numbers": ([1, 2], {}, Invalid),
    "a mapping": ({"a": 1}, {}, Invalid),
    "a mapping in a list": ([{"a": 1}], {}, Invalid),
    "an array of numbers": (pa.array([1, 2]), {}, Invalid),
    "a scalar of arrow": (pa.scalar(b"x"), {}, Invalid),
    "a table without values": (pa.table({"key": ["a"]}), {}, Invalid),
    "a table with two columns of values": (
        pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["value", "value"]),
        {},
        Invalid,
    ),
    "arrow keys of a type that is not taken": (
        pa.table({"value": ["a"], "key": pa.array(["k"], pa.string_view())}),
        {},
        Invalid,
    ),
    "keys twice": (pa.table({"value": ["a"], "key": ["a"]}), {"keys": ["a"]}, Invalid),
    "too few keys": (THREE, {"keys": [b"a"]}, Invalid),
    "too few keys of arrow": (pa.array(THREE), {"keys": pa.array([b"a"])}, Invalid),
    "too many headers": ([b"a"], {"headers": [None, None]}, Invalid),
    "one key for many": (["a", "b", "c"], {"keys": "xyz"}, Invalid),
    "a key that is a number": ([b"a"], {"keys": [1]}, Invalid),
    "keys that are no list": ([b"a"], {"keys": 1}, Invalid),
    "text that is not Unicode": (["a", "\ud800"], {}, Invalid),
    "a key that is not Unicode": ([b"a"], {"keys": ["\ud800"]}, Invalid),
    "headers that are text": ([b"a"], {"headers": ["x"]}, Invalid),
    "headers that are not JSON": ([b"a"], {"headers": [{"x": object()}]}, Invalid),
    "headers for one message of many": (THREE, {"headers": {"x": 1}}, Invalid),
    "arrow headers that are not JSON": (
        pa.table({"value": ["a"], "headers": ["{"]}),
        {},
        Invalid,
    ),
    "keys and outgoing messages": ([Outgoing("a")], {"keys": ["k"]}, Invalid),
    "a null value": ([b"a", None], {}, Invalid),
    "a null value of arrow": (pa.array([b"a", None]), {}, Invalid),
    "no value at all": (None, {}, Invalid),
    "an unknown codec": (b"a", {"codec": "lz4"}, Invalid),
    "a partition too high": (b"a", {"partition": 3}, NotFound),
    "a partition below 0": (b"a", {"partition": -1}, NotFound),
    "a message over the limit": ([b"a", b"x" * 1001], {}, TooLarge),
    "a message of arrow over the limit": (pa.array([b"a", b"x" * 1001]), {}, TooLarge),
}


@pytest.mark.parametrize("misuse", MISUSES)
async def test_bad_input_is_named_and_stores_nothing(tl: Platform, misuse: str) -> None:
    messages, options, error = MISUSES[misuse]
    await tl.log.create("orders", partitions=3)
    async with tl.db.connection() as connection:
        await connection.execute("select trunkline.config_set('log.message_bytes', '1000')")
    with pytest.raises(error) as caught:
        await tl.log.append("orders", messages, **options)
    assert type(caught.value) is error
    assert [check.messages for check in await tl.log.verify("orders")] == [0, 0, 0]
    assert await tl.log.append("orders", b"x" * 1000)


async def test_append_cannot_join_a_transaction(tl: Platform) -> None:
    await tl.log.create("orders")
    async with tl.transaction() as connection:
        with pytest.raises(BadRequest, match=r"broker\.publish") as caught:
            await tl.log.append("orders", b"a", on=connection)
    assert caught.value.code == "TL400"
    assert await values_of(tl, "orders") == []


async def test_an_unknown_topic_is_named(tl: Platform) -> None:
    with pytest.raises(NotFound, match='"nowhere"'):
        await tl.log.append("nowhere", b"a")
    with pytest.raises(NotFound, match='"nowhere"'):
        await all_of(tl, "nowhere")
    with pytest.raises(NotFound, match='"nowhere"'):
        await tl.log.consume("nowhere", "g").poll(0)


async def test_the_codec_of_one_append_differs_from_the_topics(tl: Platform) -> None:
    await tl.log.create("orders")
    for codec in (None, "zstd", "none"):
        await tl.log.append("orders", [b"x" * 1000], codec=codec)
    rows = await tl.db.run(calls.fetch("orders", 0, 1))
    assert [row.codec for row in rows] == [Codec.NONE, Codec.ZSTD, Codec.NONE]
    assert await values_of(tl, "orders") == 3 * [b"x" * 1000]


async def test_a_tombstone_goes_into_a_compacted_topic_only_with_a_key(tl: Platform) -> None:
    await tl.log.create("state", compact=True)
    await tl.log.append("state", "1", keys="a")
    await tl.log.append("state", None, keys="a")
    with pytest.raises(Invalid, match="key"):
        await tl.log.append("state", "keyless")
    assert await values_of(tl, "state") == [b"1", None]


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_read_gives_every_message_of_large_batches_once(tl: Platform, codec: str) -> None:
    await tl.log.create("orders", codec=codec)
    for first in range(0, 120_000, 30_000):
        await tl.log.append("orders", [str(n) for n in range(first, first + 30_000)])
    found = await all_of(tl, "orders")
    assert [int(message.value or b"") for message in found] == list(range(120_000))
    assert [message.offset for message in found] == list(range(1, 120_001))


async def test_read_begins_and_ends_where_it_is_told(tl: Platform) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", [str(n) for n in range(1, 11)])
    await tl.log.append("orders", [str(n) for n in range(11, 21)])
    assert [m.offset for m in await all_of(tl, "orders", start=8, limit=5)] == [8, 9, 10, 11, 12]
    assert [m.offset for m in await all_of(tl, "orders", start=19, fetch_bytes=1)] == [19, 20]
    assert await all_of(tl, "orders", start=21) == []
    assert await all_of(tl, "orders", limit=0) == []
    assert len(await all_of(tl, "orders", start=8, limit=2**40)) == len(
        await all_of(tl, "orders", start=8)
    )
    with pytest.raises(PositionTrimmed, match="20"):
        await all_of(tl, "orders", start=22)
    with pytest.raises(Invalid):
        await all_of(tl, "orders", start=0)


async def test_appends_meet_where_transactions_keep_their_snapshot(dsn: str, tl: Platform) -> None:
    await tl.log.create("orders")
    waiting = (
        "select from pg_stat_activity where datname = current_database()"
        " and wait_event_type = 'Lock' and query like '%log_append_batch%'"
    )
    options = "-c default_transaction_isolation=repeatable\\ read"
    async with trunkline.connect(make_conninfo(dsn, options=options), prepare=False) as other:
        async with tl.transaction() as holder:
            await holder.execute("select trunkline.log_append('orders', 0, array['first'::bytea])")
            second = asyncio.create_task(other.log.append("orders", "second"))

            async def waits() -> None:
                async with tl.db.connection() as watcher:
                    assert (await watcher.execute(waiting)).rowcount == 1

            await eventually(waits)
        assert [answer.first_offset for answer in await second] == [2]


@pytest.mark.parametrize(("start", "expected"), [("earliest", [1, 2, 3]), (3, [3])])
async def test_a_read_ends_where_the_log_ended_when_it_began(
    tl: Platform, start: Any, expected: list[int]
) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", THREE)
    found = []
    async for message in tl.log.read("orders", start=start):
        found.append(message.offset)
        assert len(found) <= 3
        await tl.log.append("orders", ["more"])
    assert found == expected


async def test_read_below_the_floor_names_the_first_offset(tl: Platform) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", THREE)
    assert await tl.log.trim("orders", 0, 3) == 3
    with pytest.raises(PositionTrimmed) as caught:
        await all_of(tl, "orders", start=2)
    assert caught.value.details["first"] == 3
    assert await all_of(tl, "orders", start=3)


async def test_read_passes_over_what_compaction_removed(tl: Platform) -> None:
    await tl.log.create("state", compact=True)
    await tl.log.append("state", ["1", "2", "3"], keys=["a", "b", "a"])
    await tl.log.append("state", ["4"], keys=["b"])
    await tl.log.append("state", ["5", "6"], keys=["c", "a"])
    assert await tl.log.compact("state") == {0: 3}
    assert [(m.offset, m.value) for m in await all_of(tl, "state")] == [
        (4, b"4"),
        (5, b"5"),
        (6, b"6"),
    ]
    assert [m.offset for m in await all_of(tl, "state", start=2, limit=1)] == [4]


async def test_a_message_knows_where_and_when(tl: Platform) -> None:
    await tl.log.create("orders")
    before = datetime.now(UTC) - timedelta(minutes=1)
    await tl.log.append("orders", b"a")
    (message,) = await all_of(tl, "orders")
    assert (message.topic, message.partition, message.offset) == ("orders", 0, 1)
    assert before < message.at < datetime.now(UTC) + timedelta(minutes=1)


async def test_a_time_without_a_zone_is_local_wherever_the_server_is(
    dsn: str, tl: Platform
) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", THREE)
    (first, *_) = await all_of(tl, "orders")
    local = first.at.astimezone().replace(tzinfo=None)
    there = conninfo_to_dict(dsn) | {"options": "-c timezone=Asia/Tokyo"}
    async with trunkline.connect(make_conninfo("", **there)) as far:
        assert await far.log.offset_at("orders", 0, local) == 1
        assert await far.log.offset_at("orders", 0, local + timedelta(seconds=1)) == 4
        async with far.log.consume("orders", "g", start=local + timedelta(seconds=1)) as consumer:
            assert await consumer.poll(0) is None


async def test_topics_are_managed_from_python(tl: Platform) -> None:
    day = timedelta(days=1)
    made = await tl.log.create("orders", partitions=2, retention=day, retention_bytes=1 << 30)
    assert made == await tl.log.create(
        "orders", partitions=2, retention=day, retention_bytes=1 << 30
    )
    with pytest.raises(Conflict):
        await tl.log.create("orders", partitions=3)
    await tl.log.append("orders", THREE, partition=1)
    altered = await tl.log.alter("orders", partitions=3, retention="infinity", codec="zstd")
    assert (altered.partitions, altered.retention, altered.codec) == (3, None, "zstd")
    (listed,) = await tl.log.list()
    assert (listed.topic, listed.partitions, listed.messages) == ("orders", 3, 3)
    described = await tl.log.describe("orders")
    assert [(p.first_offset, p.last_offset) for p in described] == [(1, 0), (1, 3), (1, 0)]
    assert await tl.log.offset_at("orders", 1, datetime.now(UTC) - day) == 1
    assert await tl.log.offset_at("orders", 1, datetime.now(UTC) + day) == 4
    assert [check.problem for check in await tl.log.verify("orders")] == [None, None, None]
    await tl.log.delete("orders")
    assert await tl.log.list() == []


async def test_groups_are_managed_from_python(tl: Platform) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", THREE)
    consumer = tl.log.consume("orders", "billing", max_messages=2)
    batch = await consumer.poll()
    assert batch is not None
    await batch.commit()
    (position,) = await tl.log.groups("orders")
    assert (position.group_name, position.mode, position.up_to, position.lag) == (
        "billing",
        "assigned",
        2,
        1,
    )
    assert position.process_name is not None
    assert [(lag.group_name, lag.lag, lag.owned) for lag in await tl.log.lag()] == [
        ("billing", 1, 1)
    ]
    await consumer.close()
    assert await tl.log.seek("orders", "billing", "earliest") == {0: 1}
    assert (await tl.log.lag("orders"))[0].lag == 3
    await tl.log.group_delete("orders", "billing")
    assert await tl.log.groups("orders") == []


async def test_partitions_that_this_client_adds_take_keys_at_once(tl: Platform) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", "old", keys="key-4")
    await tl.log.alter("orders", partitions=4)
    (answer,) = await tl.log.append("orders", "new", keys="key-4")
    assert answer.partition == partition_of(b"key-4", 4)


def test_partitions_that_a_blocking_client_adds_take_keys_at_once(dsn: str) -> None:
    with trunkline.connect_sync(dsn) as tl:
        tl.log.create("orders")
        tl.log.append("orders", "old", keys="key-4")
        tl.log.alter(topic="orders", partitions=4)
        (answer,) = tl.log.append("orders", "new", keys="key-4")
        assert answer.partition == partition_of(b"key-4", 4)
        tl.log.delete("orders")
        tl.log.create("orders", partitions=2)
        assert {each.partition for each in tl.log.append("orders", KEYED, keys=KEYED)} == {0, 1}


async def test_a_topic_that_another_client_made_again_is_appended_to(
    dsn: str, tl: Platform
) -> None:
    await tl.log.create("orders", partitions=3)
    await tl.log.append("orders", KEYED, keys=KEYED)
    async with trunkline.connect(dsn) as other:
        await other.log.delete("orders")
        await other.log.create("orders", partitions=2)
    to_the_third = next(key for key in KEYED if partition_of(key, 3) == 2)
    (answer,) = await tl.log.append("orders", b"new", keys=to_the_third)
    assert answer.partition == partition_of(to_the_third, 2)
    with pytest.raises(NotFound, match="has partitions 0 to 1, asked for 7"):
        await tl.log.append("orders", b"new", partition=7)


async def test_a_topic_that_was_made_anew_begins_at_one(tl: Platform) -> None:
    await tl.log.create("orders", partitions=4)
    await tl.log.append("orders", THREE, partition=3)
    await tl.log.delete("orders")
    with pytest.raises(NotFound):
        await tl.log.append("orders", b"a")
    await tl.log.create("orders", partitions=1)
    assert await tl.log.append("orders", b"new", keys="k") == [Appended("orders", 0, 1, 1)]
    assert await values_of(tl, "orders") == [b"new"]


async def test_topics_are_asked_for_once_in_a_while_and_not_per_append(tl: Platform) -> None:
    await tl.log.create("orders")
    known = tl.log._topics
    await tl.log.append("orders", b"a")
    first = await known.get("orders")
    await tl.log.append("orders", b"a")
    assert await known.get("orders") is first
    known.forget("orders")
    crowd = await asyncio.gather(*(known.get("orders") for _ in range(20)))
    assert len({id(each) for each in crowd}) == 1
    assert crowd[0] is not first


async def test_closing_stores_what_was_sent_and_leaves_every_group(dsn: str, tl: Platform) -> None:
    await tl.log.create("orders")
    async with trunkline.connect(dsn) as other:
        producer = other.log.producer("orders", linger=60)
        await producer.send("a")
        consumer = other.log.consume("orders", "billing")
        assert await consumer.poll(0) is None
        assert (await tl.log.groups("orders"))[0].process is not None
    assert await values_of(tl, "orders") == [b"a"]
    assert (await tl.log.groups("orders"))[0].process is None
    assert await consumer.poll() is None
    with pytest.raises(Invalid, match="closed"):
        await other.log.append("orders", b"b")
    await other.close()


async def test_a_connection_that_is_closed_says_so_and_takes_nothing_more(dsn: str) -> None:
    tl = await trunkline.connect(dsn)
    await tl.close()

    async def answer(use: Callable[[], Any]) -> None:
        found = use()
        if inspect.isawaitable(found):
            await found

    for use in (
        lambda: tl.log.list(),
        lambda: tl.log.append("orders", "a"),
        lambda: tl.log.producer("orders"),
        lambda: tl.log.consume("orders", "billing"),
        lambda: tl.broker.publish("orders", 1),
        lambda: tl.broker.enqueue("orders", 1),
        lambda: tl.broker.enqueuer(),
    ):
        with pytest.raises(TrunklineError, match="the connection is closed"):
            await answer(use)


async def test_a_failure_at_the_end_is_told_and_leaves_nothing_open(dsn: str, tl: Platform) -> None:
    await tl.log.create("orders")
    other = await trunkline.connect(dsn)
    producer = other.log.producer("orders", linger=60)
    await producer.send("a", partition=7)
    consumer = other.log.consume("orders", "billing")
    await consumer.poll(0)
    with pytest.raises(NotFound, match="asked for 7"):
        await other.close()
    with pytest.raises(Unavailable):
        await other.log.list()
    assert (await tl.log.groups("orders"))[0].process is None


async def test_what_was_closed_is_not_kept(tl: Platform) -> None:
    await tl.log.create("orders")
    for _ in range(20):
        await tl.log.producer("orders").close()
        await tl.log.consume("orders", "billing").close()
    assert len(tl.log._opened) <= 1


async def test_a_message_that_is_neither_bytes_nor_text_is_refused_with_what_to_do(
    tl: Platform,
) -> None:
    await tl.log.create("orders")
    for given in ({"order": 1}, 7, uuid4()):
        with pytest.raises(Invalid, match=r"is bytes or text, got \w+\. Encode it first.*json"):
            await tl.log.append("orders", given)


async def test_a_consumer_of_unknown_kind_is_refused(tl: Platform) -> None:
    for options in (
        {"mode": "exclusive"},
        {"delivery": "exactly-once"},
        {"max_messages": 0},
        {"fetch_bytes": 0},
        {"max_attempts": 0},
        {"max_messages": "10"},
        {"deadline": timedelta(0)},
        {"deadline": 30},
        {"poll_interval": 0},
        {"poll_interval": timedelta(seconds=1)},
        {"poll_interval": nan},
    ):
        with pytest.raises(Invalid):
            tl.log.consume("orders", "billing", **options)  # type: ignore[arg-type]
    await tl.log.create("orders")
    for wrong in (nan, timedelta(seconds=1), "1"):
        with pytest.raises(Invalid, match=f"number of seconds, got {re.escape(repr(wrong))}"):
            await tl.log.consume("orders", "billing").poll(wrong)  # type: ignore[arg-type]


async def test_a_number_is_no_duration_for_it_has_no_unit(tl: Platform) -> None:
    with pytest.raises(Invalid, match=r"retention is a timedelta, got 7\."):
        await tl.log.create("orders", retention=7)  # type: ignore[arg-type]
    await tl.log.create("orders", retention=timedelta(days=7))
    with pytest.raises(Invalid, match=r"retention is a timedelta or text, got 3600\.5\."):
        await tl.log.alter("orders", retention=3600.5)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=r"expiry is a timedelta, got 60\."):
        await tl.broker.subscribe("billing", expiry=60)  # type: ignore[arg-type]


async def test_a_text_that_is_no_duration_is_told_with_the_name_of_the_argument(
    tl: Platform,
) -> None:
    for wrong in ("soon", "9999999999999 days"):
        with pytest.raises(Invalid, match=f'retention is a duration, got "{wrong}"') as told:
            await tl.log.create("orders", retention=wrong)  # type: ignore[arg-type]
        assert told.value.hint == 'For example timedelta(minutes=5), or "5 minutes".'
    with pytest.raises(Invalid, match='from_time is a time, got "soon"'):
        await tl.broker.subscribe("billing", from_time="soon")  # type: ignore[arg-type]


async def test_a_name_that_there_is_not_is_never_an_empty_list(tl: Platform) -> None:
    await tl.log.create("orders")
    assert await tl.log.groups("orders") == await tl.log.lag("orders") == []
    for ask in (tl.log.groups, tl.log.lag):
        with pytest.raises(NotFound, match='there is no topic "oders"'):
            await ask("oders")
        with pytest.raises(NotFound, match='topic "orders" has no group "g"'):
            await ask("orders", "g")
        with pytest.raises(NotFound, match='there is no group "g"'):
            await ask(None, "g")


async def test_one_message_may_have_one_key(tl: Platform) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", "one", key="k")
    assert [message.key async for message in tl.log.read("orders")] == [b"k"]
    for messages, keys in ((["one"], None), ("one", ["k"])):
        with pytest.raises(Invalid, match="key"):
            await tl.log.append("orders", messages, key="k", keys=keys)


async def test_times_at_the_ends_of_time_are_taken_and_what_is_none_is_refused(
    tl: Platform,
) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", THREE)
    for zone in (None, UTC):
        first, last = datetime.min.replace(tzinfo=zone), datetime.max.replace(tzinfo=zone)
        assert await tl.log.offset_at("orders", 0, first) == 1
        assert await tl.log.offset_at("orders", 0, last) == 4
        async with tl.log.consume("orders", uuid4().hex, start=first) as consumer:
            assert (await consumer.poll(10)).offsets == [1, 2, 3]  # type: ignore[union-attr]
    for wrong in (datetime.now(UTC).date(), "2026-01-01", None):
        with pytest.raises(Invalid, match="is a datetime"):
            await tl.log.offset_at("orders", 0, wrong)  # type: ignore[arg-type]


async def test_maintenance_runs_as_a_service(tl: Platform) -> None:
    await tl.log.create("orders")
    await tl.log.append("orders", THREE)
    async with tl.db.connection() as connection:
        await connection.execute("select trunkline.config_set('log.segment_age', '1 ms')")
        await connection.execute("select trunkline.config_set('log.segment_bytes', '8192')")
    supervisor = Supervisor(tl.services())
    ran = supervisor.loop("maintainer").ran.wait()
    running = asyncio.create_task(supervisor.run())
    await ran
    await supervisor.stop()
    await running
    assert [p.segments for p in await tl.log.describe("orders")] == [2]
    assert await values_of(tl, "orders") == THREE
