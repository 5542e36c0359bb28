"""Record batches: what goes in comes out, and what is damaged never does."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.core.errors import Invalid, TooLarge
from trunkline.log import decoding
from trunkline.log.batches import (
    Codec,
    PackedBatch,
    StoredBatch,
    pack,
    pack_arrow,
    partition_of,
    route,
)
from trunkline.log.decoding import DecodedBatch, decode

GOLDEN = Path(__file__).parent / "golden"
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
COLUMNS = ("value_ends", "payload", "value_valid", "key_ends", "keys", "key_valid", "headers")
BYTE_COLUMNS = (*COLUMNS, "deltas", "event_ids")

texts = st.text(
    alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8
)
scalars = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | texts
headers_of_one = st.none() | st.dictionaries(texts, scalars | st.lists(scalars, max_size=2))
cells = st.none() | st.binary(max_size=12)
codecs = st.sampled_from(Codec)
makers = st.sampled_from(
    [0, sys.maxsize]
)  # the version of Arrow that makes the messages: any, none
steady = settings(deadline=None)


@st.composite
def batches(draw: st.DrawFn) -> dict[str, Any]:
    n = draw(st.integers(1, 20))
    return {
        "values": draw(st.lists(cells, min_size=n, max_size=n)),
        "keys": draw(st.none() | st.lists(cells, min_size=n, max_size=n)),
        "headers": draw(st.none() | st.lists(headers_of_one, min_size=n, max_size=n)),
    }


def stored(packed: PackedBatch, *, base_offset: int = 1, **changes: Any) -> StoredBatch:
    row = StoredBatch(
        format=1,
        codec=int(packed.codec),
        incarnation=7,
        base_offset=base_offset,
        last_offset=base_offset + packed.n - 1,
        n=packed.n,
        at=AT,
        deltas=None,
        event_ids=None,
        skip=0,
        take=packed.n,
        **{name: getattr(packed, name) for name in COLUMNS},
    )
    return replace(row, **changes)


def columns(batch: DecodedBatch) -> dict[str, list[Any]]:
    return {"values": batch.values, "keys": batch.keys, "headers": batch.headers}


def nothing_missing(batch: dict[str, Any]) -> dict[str, list[Any]]:
    n = len(batch["values"])
    return {name: [None] * n if column is None else column for name, column in batch.items()}


@steady
@given(batch=batches(), codec=codecs, maker=makers)
def test_what_is_packed_comes_out_again(batch: dict[str, Any], codec: Codec, maker: int) -> None:
    decoded = decode(stored(pack(**batch, codec=codec), base_offset=100))

    with patch.object(decoding, "_QUICK_ARROW", maker):
        assert columns(decoded) == nothing_missing(batch)
    assert decoded.offsets == list(range(100, 100 + len(batch["values"])))


@steady
@given(batch=batches(), codec=codecs, maker=makers, data=st.data())
def test_every_window_shows_its_own_messages(
    batch: dict[str, Any], codec: Codec, maker: int, data: st.DataObject
) -> None:
    n = len(batch["values"])
    skip = data.draw(st.integers(0, n))
    take = data.draw(st.integers(0, n - skip))
    expected = {name: column[skip : skip + take] for name, column in nothing_missing(batch).items()}

    fetched = decode(stored(pack(**batch, codec=codec), skip=skip, take=take))
    other = decode(stored(pack(**batch, codec=codec))).window(skip, take)

    for window in (fetched, other):
        assert len(window) == take
        with patch.object(decoding, "_QUICK_ARROW", maker):
            assert columns(window) == expected
        assert window.offsets == list(range(1 + skip, 1 + skip + take))
        assert window.to_arrow()["value"].to_pylist() == expected["values"]


@steady
@given(batch=batches(), codec=codecs, data=st.data())
def test_arrow_comes_out_as_it_went_in(
    batch: dict[str, Any], codec: Codec, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from([pa.binary(), pa.large_binary()]))
    packed = pack_arrow(
        messy(batch["values"], kind, data),
        keys=None if batch["keys"] is None else messy(batch["keys"], kind, data),
        headers=batch["headers"],
        codec=codec,
    )
    decoded = decode(stored(packed))
    table = decoded.to_arrow()

    assert packed == pack(**batch, codec=codec)
    assert table["offset"].to_pylist() == decoded.offsets
    assert table["value"].to_pylist() == batch["values"]
    assert table["key"].to_pylist() == decoded.keys
    assert [text and json.loads(text) for text in table["headers"].to_pylist()] == decoded.headers
    assert set(table["timestamp"].to_pylist()) == {AT}
    table.validate(full=True)


def messy(cells: list[bytes | None], kind: pa.DataType, data: st.DataObject) -> Any:
    """The cells as Arrow gives them in practice: a slice of something larger, in chunks."""
    before = data.draw(st.integers(0, 9))
    array = pa.array([b"before"] * before + cells + [None, b"after"], kind)
    array = array.slice(before, len(cells))
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(cells)))
        return pa.chunked_array([array.slice(0, cut), array.slice(cut)])
    return array


def test_arrow_text_and_fixed_binary_are_taken() -> None:
    for kind in (pa.string(), pa.large_string()):
        assert decode(stored(pack_arrow(pa.array(["ä", "b"], kind)))).values == [
            "ä".encode(),
            b"b",
        ]
    fixed = pa.array([b"ab", None, b"cd"], pa.binary(2))
    assert decode(stored(pack_arrow(fixed))).values == [b"ab", None, b"cd"]
    assert decode(stored(pack_arrow(pa.nulls(3)))).values == [None, None, None]


def test_arrow_headers_come_back_as_they_were_written() -> None:
    texts = pa.array(['{"a": 1}', None, "{}"])
    decoded = decode(stored(pack_arrow(pa.array([b"x", b"y", b"z"]), headers=texts)))

    assert decoded.headers == [{"a": 1}, None, {}]
    assert decoded.to_arrow()["headers"].to_pylist() == ['{"a":1}', None, "{}"]


def test_bytes_under_a_null_are_left_behind() -> None:
    validity = pa.py_buffer(bytes([0b101]))
    ends = pa.py_buffer(struct.pack("<4i", 0, 1, 7, 8))
    hidden = pa.Array.from_buffers(pa.binary(), 3, [validity, ends, pa.py_buffer(b"asecretb")])

    packed = pack_arrow(hidden)

    assert packed.payload == b"ab"
    assert decode(stored(packed)).values == [b"a", None, b"b"]


def test_the_payload_of_an_uncompressed_batch_is_not_copied_into_arrow() -> None:
    row = stored(pack([b"x" * 100] * 500))
    value = decode(row).to_arrow()["value"].chunk(0)

    assert value.buffers()[2].address == pa.py_buffer(row.payload).address


def test_another_window_does_not_decompress_again() -> None:
    decoded = decode(stored(pack([b"x" * 100] * 50, codec=Codec.ZSTD)))
    whole, part = decoded.to_arrow()["value"], decoded.window(10, 5).to_arrow()["value"]

    assert whole.chunk(0).buffers()[2].address == part.chunk(0).buffers()[2].address


def test_plain_batches_leave_the_columns_empty_that_say_nothing() -> None:
    packed = pack([b"a", b"bc"], keys=[None, None], headers=[None, None])

    assert packed == PackedBatch(
        n=2,
        codec=Codec.NONE,
        value_ends=struct.pack("<3i", 0, 1, 3),
        payload=b"abc",
        value_valid=None,
        key_ends=None,
        keys=None,
        key_valid=None,
        headers=None,
        size=3,
    )


def test_the_size_of_a_batch_is_counted_before_compression() -> None:
    values, keys = [b"x" * 1000] * 10, [b"key"] * 10

    for codec in Codec:
        assert pack(values, keys=keys, codec=codec).size == 10_030
        packed = pack_arrow(pa.array(values), keys=pa.array(keys), codec=codec)
        assert packed.size == 10_030
    assert len(pack(values, codec=Codec.ZSTD).payload) < 100


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "empty"),
        ([b"a"], {"keys": [b"k", b"l"]}, "1 value came with 2 keys"),
        ([b"a"], {"headers": []}, "1 value came with 0 headers"),
        (["text"], {}, "a value is of type str"),
        ([None, 5], {}, "a value is of type int"),
        (b"abc", {}, "a value is of type int"),
        ([b"a"], {"keys": ["k"]}, "a key is of type str"),
        ([b"a"], {"headers": [["no", "mapping"]]}, "expected a mapping"),
        ([b"a"], {"headers": [{1: "a"}]}, "expected a mapping"),
        ([b"a"], {"headers": [{"a": float("nan")}]}, "not JSON"),
        ([b"a"], {"headers": [{"a": b"bytes"}]}, "not JSON"),
        ([b"a"], {"headers": [{"a": "\ud800"}]}, "not JSON"),
        ([b"a"], {"headers": [{"a": "nul \x00"}]}, "NUL"),
    ],
)
def test_what_cannot_be_packed_is_refused_by_name(
    values: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        pack(values, **options)


def test_a_backslash_before_u0000_is_not_a_nul() -> None:
    headers = [{"a": "\\u0000"}, {"\\": "\\\\u0000"}]

    assert decode(stored(pack([b"a", b"b"], headers=headers))).headers == headers


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (pa.array([1, 2]), {}, "int64"),
        (pa.array([], pa.binary()), {}, "empty"),
        (pa.array([b"a"]), {"keys": pa.array([b"a", b"b"])}, "2 keys"),
        (pa.array([b"a"]), {"headers": pa.array(["{"])}, "not JSON"),
        (pa.array([b"a"]), {"headers": pa.array(["[1]"])}, "expected a mapping"),
        (pa.array([b"a"]), {"headers": pa.array(['{"a": NaN}'])}, "not JSON"),
    ],
)
def test_arrow_that_cannot_be_packed_is_refused_by_name(
    array: pa.Array, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        pack_arrow(array, **options)


def test_what_no_column_can_hold_is_refused_before_memory_is_spent_on_it() -> None:
    megabyte = b"x" * 2**20

    with pytest.raises(TooLarge, match="values of a batch have 1073741824 bytes"):
        pack([megabyte] * 1024)
    with pytest.raises(TooLarge, match="keys of a batch have 1073741824 bytes"):
        pack([b"v"] * 1024, keys=[megabyte] * 1024)
    with pytest.raises(TooLarge, match="values of a batch have 1073741824 bytes"):
        pack_arrow(pa.chunked_array([pa.array([megabyte])] * 1024))


def test_deltas_and_event_ids_follow_the_window() -> None:
    row = stored(
        pack([b"a", b"b", b"c"]),
        base_offset=50,
        last_offset=59,
        deltas=struct.pack("<3i", 0, 4, 9),
        event_ids=struct.pack("<3q", -1, 2**62, 3),
    )
    window = decode(row).window(1, 2)

    assert window.offsets == [54, 59]
    assert window.event_ids == [2**62, 3]
    assert window.to_arrow()["offset"].to_pylist() == [54, 59]
    assert decode(row).offsets == [50, 54, 59]


def test_a_row_that_compaction_emptied_has_no_messages() -> None:
    empty: dict[str, Any] = {"n": 0, "value_ends": struct.pack("<i", 0), "payload": b"", "take": 0}
    decoded = decode(stored(pack([b"a"]), deltas=b"", **empty))

    assert (decoded.values, decoded.offsets, len(decoded.to_arrow())) == ([], [], 0)


def frame(content: bytes, **options: Any) -> bytes:
    return zstandard.ZstdCompressor(level=1, **options).compress(content)


PLAIN = stored(pack([b"ab", None, b"c"], keys=[b"k", None, b"l"], headers=[{}, None, None]))
ZSTD = stored(
    pack([b"ab", None, b"c"], keys=[b"k", None, b"l"], headers=[{}, None, None], codec=Codec.ZSTD)
)


@pytest.mark.parametrize(
    ("row", "changes", "message"),
    [
        (PLAIN, {"format": 2}, "format 2"),
        (PLAIN, {"codec": 9}, "codec 9"),
        (PLAIN, {"n": -1}, "n is -1"),
        (PLAIN, {"n": 4}, "n is 4 for offsets 1 to 3"),
        (PLAIN, {"n": 2**31 - 1, "last_offset": 2**31 - 1}, "value_ends has 16 bytes"),
        (ZSTD, {"n": 2**31 - 1, "last_offset": 2**31 - 1}, "value_ends has 16 bytes"),
        (PLAIN, {"value_ends": b""}, "value_ends has 0 bytes"),
        (PLAIN, {"value_ends": struct.pack("<4i", 0, 2, 1, 3)}, "value_ends does not ascend"),
        (PLAIN, {"value_ends": struct.pack("<4i", 1, 2, 2, 3)}, "value_ends does not ascend"),
        (PLAIN, {"value_ends": struct.pack("<4i", 0, -1, 2, 3)}, "value_ends does not ascend"),
        (PLAIN, {"value_ends": struct.pack("<4i", 0, 2, 2, 4)}, "payload has 3 bytes, expected 4"),
        (PLAIN, {"payload": b"abcd"}, "payload has 4 bytes, expected 3"),
        (PLAIN, {"value_valid": b""}, "validity of payload has 0 bytes, expected 1"),
        (PLAIN, {"value_valid": b"\x05\x00"}, "validity of payload has 2 bytes"),
        (PLAIN, {"keys": None}, "keys is missing"),
        (PLAIN, {"key_ends": None}, "key_ends is missing"),
        (PLAIN, {"keys": None, "key_ends": None}, "key_ends is missing"),
        (PLAIN, {"value_ends": None}, "value_ends is missing"),
        (PLAIN, {"deltas": b"\x00" * 8}, "deltas has 8 bytes"),
        (PLAIN, {"deltas": struct.pack("<3i", 0, 1, 1)}, "deltas does not ascend"),
        (PLAIN, {"deltas": struct.pack("<3i", 0, 1, 3)}, "deltas leaves offsets 1 to 3"),
        (PLAIN, {"deltas": struct.pack("<3i", -1, 0, 1)}, "deltas leaves offsets 1 to 3"),
        (PLAIN, {"event_ids": b"\x00" * 12}, "event_ids has 12 bytes"),
        (PLAIN, {"skip": 2}, "3 messages after the first 2 of a batch of 3"),
        (PLAIN, {"skip": -1, "take": 1}, "after the first -1"),
        (PLAIN, {"take": -1}, "asked for -1"),
        (ZSTD, {"payload": PLAIN.payload}, "payload is not a whole zstd frame"),
        (ZSTD, {"payload": b""}, "payload is not a whole zstd frame"),
        (ZSTD, {"payload": ZSTD.payload[:-1]}, "payload is not a whole zstd frame"),
        (ZSTD, {"payload": ZSTD.payload + b"x"}, "payload is not a whole zstd frame"),
        (ZSTD, {"payload": ZSTD.payload * 2}, "payload is not a whole zstd frame"),
        (ZSTD, {"payload": frame(b"abcd")}, "payload has 4 bytes, expected 3"),
        (ZSTD, {"payload": frame(b"abc", write_content_size=False)}, "payload has -1 bytes"),
        (ZSTD, {"headers": frame(b"[]", write_content_size=False)}, "headers is a frame of -1"),
    ],
)
def test_a_damaged_row_is_refused_by_name(
    row: StoredBatch, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        decode(replace(row, **changes))


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[{}]", "not an array of 3"),
        (b'{"a": 1}', "not an array of 3"),
        (b"[1, null, {}]", "neither an object nor null"),
        (b"[" * 100_000, "not JSON"),
        (b"[" + b"9" * 5000 + b", null, {}]", "neither an object nor null"),
        (b'[{"a": ' + b"9" * 5000 + b"}, null, {]", "not JSON"),
        (b'[{"a": ' + b"9" * 5000 + b"}, null]", "not an array of 3"),
    ],
)
def test_damaged_headers_are_refused_when_they_are_asked_for(headers: bytes, message: str) -> None:
    decoded = decode(replace(PLAIN, headers=headers))

    assert decoded.values == [b"ab", None, b"c"]
    with pytest.raises(Invalid, match=message):
        _ = decoded.headers


@steady
@given(row=st.sampled_from([PLAIN, ZSTD]), maker=makers, data=st.data())
def test_a_damaged_byte_gives_an_error_or_messages_of_the_right_shape(
    row: StoredBatch, maker: int, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(COLUMNS))
    column = bytearray(getattr(row, name))
    column[data.draw(st.integers(0, len(column) - 1))] ^= data.draw(st.integers(1, 255))
    damage: dict[str, Any] = {name: bytes(column)}
    try:
        with patch.object(decoding, "_QUICK_ARROW", maker):
            decoded = columns(decode(replace(row, **damage)))
    except Invalid:
        return
    assert {len(messages) for messages in decoded.values()} == {3}


def golden_files() -> list[Path]:
    return sorted(set(GOLDEN.glob("*.json")) - {GOLDEN / "key_hash.json"})


def read(golden: dict[str, Any]) -> StoredBatch:
    cells: dict[str, Any] = {
        name: bytes.fromhex(cell) if name in BYTE_COLUMNS and cell is not None else cell
        for name, cell in golden.items()
    }
    return StoredBatch(**cells | {"at": datetime.fromisoformat(golden["at"])})


@pytest.mark.parametrize("path", golden_files(), ids=lambda path: path.stem)
def test_golden_batches_are_read_and_written_as_ever(path: Path) -> None:
    golden = json.loads(path.read_text())
    row = read(golden["row"])
    decoded = decode(row)

    assert [
        {"offset": offset, "value": value, "key": key, "headers": headers, "event_id": event_id}
        for offset, value, key, headers, event_id in zip(
            decoded.offsets,
            [value if value is None else value.hex() for value in decoded.values],
            [key if key is None else key.hex() for key in decoded.keys],
            decoded.headers,
            decoded.event_ids,
            strict=True,
        )
    ] == golden["messages"]

    whole = decoded.window(0, row.n)
    again = pack(**columns(whole), codec=Codec(row.codec))
    if again.codec is Codec.ZSTD:  # another zstd may make other frames of the same content
        assert columns(decode(stored(again))) == columns(whole)
    else:
        assert {name: getattr(again, name) for name in COLUMNS} == {
            name: getattr(row, name) for name in COLUMNS
        }


def test_keys_go_to_the_partitions_of_the_shared_vectors() -> None:
    for vector in json.loads((GOLDEN / "key_hash.json").read_text()):
        key, partitions = bytes.fromhex(vector["key"]), vector["partitions"]
        assert partition_of(key, partitions) == vector["partition"]
        assert route([key], partitions)[vector["partition"]] == [0]


@steady
@given(keys=st.lists(cells, max_size=30), partitions=st.integers(1, 9), data=st.data())
def test_routing_agrees_with_the_partition_of_each_key_and_keeps_order(
    keys: list[bytes | None], partitions: int, data: st.DataObject
) -> None:
    keyless = data.draw(st.integers(0, partitions - 1))
    routes = route(keys, partitions, keyless=keyless)

    assert len(routes) == partitions
    assert sorted(index for indices in routes for index in indices) == list(range(len(keys)))
    for partition, indices in enumerate(routes):
        assert indices == sorted(indices)
        for key in (keys[index] for index in indices):
            expected = keyless if key is None else partition_of(key, partitions)
            assert partition == expected


def test_routing_to_no_partition_is_refused() -> None:
    for call in (lambda: partition_of(b"a", 0), lambda: route([b"a"], 0)):
        with pytest.raises(Invalid, match="partition"):
            call()
    with pytest.raises(Invalid, match="partition 4 is not one of 4"):
        route([b"a"], 4, keyless=4)


def test_codecs_are_parsed_by_name() -> None:
    assert [Codec.parse("none"), Codec.parse("ZSTD")] == [Codec.NONE, Codec.ZSTD]
    assert str(Codec.ZSTD) == "zstd"
    with pytest.raises(Invalid, match="unknown codec 'lz4'"):
        Codec.parse("lz4")


def test_arrow_is_not_imported_until_it_is_asked_for() -> None:
    program = (
        "import sys, trunkline.log.batches as b; b.pack([b'a']); sys.exit('pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
