"""Bad input in SQL gets a named error that says what was expected, and changes nothing."""

from __future__ import annotations

import struct
from contextlib import closing
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb
from tests.fixtures.asking import Session, ask, call, column, refused
from tests.fixtures.postgres import new_database
from tests.log.archiving import CHECKSUM
from tests.log.steps import TOPIC, append, claim, configure, create, fill, join, process, read, seal

from trunkline.core import migrate
from trunkline.log.batches import Codec, pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import AnyServer

PRODUCER = UUID(int=7)
LARGEST_INT = 2**31 - 1
LARGEST = 2**63 - 1
HOUR = timedelta(hours=1)

ABSURD_NAMES = {
    "empty": "",
    "too long": "x" * 201,
    "far too long": "x" * 300,
    "space": "a b",
    "leading space": " a",
    "quote": "it's",
    "double quote": 'a"b',
    "newline": "a\n",
    "inner newline": "a\nb",
    "tab": "a\tb",
    "umlaut": "größe",
    "emoji": "🐘",
    "slash": "a/b",
    "percent": "100%s",
    "semicolon": "a;drop table x",
    "star": "*",
    "colon": "a:0",
}
ODD_BUT_FINE = ["a", "7", ".", "-", "_", "A.b-c_9", "x" * 200, "pg_class", "select", "log.dead"]


@pytest.fixture(scope="module")
def furnished(server: AnyServer, template: str) -> Iterator[Session]:
    """A topic with offsets 5 to 10 and a dead letter, a compacted one, one to archive, two groups.

    One database for all cases: that nothing changes is what they are about.
    """
    with (
        new_database(server, template=template) as name,
        closing(psycopg.connect(server.dsn(name), autocommit=True)) as session,
    ):
        create(session)
        fill(session, 4)
        seal(session)
        fill(session, 6)
        call(session, "log_trim", topic=TOPIC, partition=0, before_offset=5)
        create(session, "state", compact=True)
        append(session, b"1", topic="state", keys=[b"a"])
        create(session, "kept", archive=True)
        append(session, b"1", b"2", topic="kept")
        seal(session, "kept")
        claim(session, 1, HOUR, start="6")
        create(session, "orders.dead")
        append(session, b"1", topic="orders.dead", headers=[{"dead": {"group": "readers"}}])
        join(session, process(session))
        yield session


def everything(session: Session) -> list[Any]:
    """All rows that the log keeps, and all its tables."""
    tables = column(
        session,
        """select oid::regclass::text from pg_class
            where relnamespace = 'trunkline'::regnamespace and relkind = 'r'
              and relname ~ '^(log_|cursor|owner|party|incarnation)' order by 1""",
    )
    query = " union all ".join(
        f"select '{name}', md5(string_agg(t::text, ',' order by t::text)) from {name} t"
        for name in tables
    )
    return session.execute(query).fetchall()


def given(function: str, state: str, /, **arguments: Any) -> Any:
    """A case of the table: what is called, what is wrong, and the SQLSTATE that it gets."""
    wrong = ", ".join(f"{name}={value!r:.40}" for name, value in arguments.items())
    return pytest.param(function, arguments, state, id=f"{function}({wrong})-{state}")


APPEND = {"topic": TOPIC, "partition": 0, "payloads": [b"x"]}
FETCH = {"topic": TOPIC, "partition": 0, "from_offset": 5}
CLAIM = {"topic": TOPIC, "group_name": "readers", "partition": 0}
COMMIT = {"topic": TOPIC, "group_name": "billing", "partition": 0, "epoch": 1, "up_to": 5}
PROGRESS = {"topic": TOPIC, "group_name": "new", "partitions": [0], "up_to": [5]}

CASES = [
    # topics
    given("log_create", "TL409", topic=TOPIC, partitions=2),
    given("log_create", "TL409", topic=TOPIC, retention=HOUR),
    given("log_create", "TL409", topic=TOPIC, compact=True),
    given("log_create", "TL422", topic="new", partitions=0),
    given("log_create", "TL422", topic="new", partitions=-1),
    given("log_create", "TL422", topic="new", partitions=1025),
    given("log_create", "TL422", topic="new", retention=timedelta(0)),
    given("log_create", "TL422", topic="new", retention=-HOUR),
    given("log_create", "TL422", topic="new", retention="9999 years"),
    given("log_create", "TL422", topic="new", retention_bytes=0),
    given("log_create", "TL422", topic="new", codec="lz4"),
    given("log_create", "TL422", topic="new", codec="x" * 500),
    given("log_create", "TL422", topic="new", compact=True, codec="zstd"),
    given("log_alter", "TL404", topic="missing"),
    given("log_alter", "TL422", topic="state", partitions=0),
    given("log_alter", "TL422", topic="state", codec="zstd"),
    given("log_alter", "TL422", topic=TOPIC, compact=True),
    given("log_alter", "TL422", topic=TOPIC, retention=-HOUR),
    given("log_alter", "TL422", topic=TOPIC, retention_bytes=-1),
    given("log_delete", "TL404", topic="missing"),
    given("log_describe", "TL404", topic="missing"),
    given("log_settings", "TL404", topic="missing"),
    given("log_verify", "TL404", topic="missing"),
    given("log_partition_of", "TL422", key=b"a", partitions=0),
    given("log_partition_of", "TL422", key=b"a", partitions=-3),
    # appending
    given("log_append", "TL404", **APPEND | {"topic": "missing"}),
    given("log_append", "TL404", **APPEND | {"topic": "it's"}),
    given("log_append", "TL404", **APPEND | {"partition": 1}),
    given("log_append", "TL404", **APPEND | {"partition": -1}),
    given("log_append", "TL404", **APPEND | {"partition": LARGEST_INT}),
    given("log_append", "TL422", **APPEND | {"payloads": []}),
    given("log_append", "TL422", **APPEND | {"payloads": [b"x", None]}),
    given("log_append", "TL422", **APPEND | {"payloads": [[b"x"], [b"y"]]}),
    given("log_append", "TL422", **APPEND, keys=[b"a", b"b"]),
    given("log_append", "TL422", **APPEND, keys=[]),
    given("log_append", "TL422", **APPEND, headers=[Jsonb({}), Jsonb({})]),
    given("log_append", "TL422", **APPEND, headers=[Jsonb(1)]),
    given("log_append", "TL422", **APPEND, headers=[Jsonb("text")]),
    given("log_append", "TL422", **APPEND, headers=[Jsonb([{}])]),
    given("log_append", "TL422", **APPEND, headers=[Jsonb(None)]),
    given("log_append", "TL422", **APPEND, producer_id=PRODUCER),
    given("log_append", "TL422", **APPEND, producer_seq=1),
    given("log_append", "TL422", **APPEND | {"topic": "state"}),
    given("log_append", "TL422", **APPEND | {"topic": "state"}, keys=[None]),
    given("log_append_text", "TL404", topic="missing", message="x"),
    given("log_append_text", "TL422", topic=TOPIC, message="x", headers=Jsonb([])),
    # reading
    given("log_fetch", "TL404", **FETCH | {"topic": "missing"}),
    given("log_fetch", "TL404", **FETCH | {"partition": 1}),
    given("log_fetch", "TL422", **FETCH | {"from_offset": 0}),
    given("log_fetch", "TL422", **FETCH | {"from_offset": -1}),
    given("log_fetch", "TL422", **FETCH | {"from_offset": -LARGEST - 1}),
    given("log_fetch", "TL410", **FETCH | {"from_offset": 4}),
    given("log_fetch", "TL410", **FETCH | {"from_offset": 12}),
    given("log_fetch", "TL410", **FETCH | {"from_offset": LARGEST}),
    given("log_fetch", "TL422", **FETCH, max_messages=0),
    given("log_fetch", "TL422", **FETCH, max_bytes=-1),
    given("log_fetch", "TL410", **FETCH | {"from_offset": 8}, incarnation=-5),
    given("log_read", "TL404", topic="missing"),
    given("log_read", "TL404", topic=TOPIC, partition=-1),
    given("log_read", "TL422", topic=TOPIC, from_offset=-1),
    given("log_read", "TL410", topic=TOPIC, from_offset=1),
    given("log_read", "TL422", topic=TOPIC, from_offset=5, max_messages=0),
    given("log_offset_at", "TL404", topic="missing", partition=0, at_time="2030-01-01"),
    given("log_offset_at", "TL404", topic=TOPIC, partition=9, at_time="2030-01-01"),
    given("log_ready", "TL404", topic="missing", partitions=[0], up_to=[0]),
    # claims
    given("log_claimable", "TL404", topic="missing", group_name="readers"),
    given("log_claimable", "TL422", topic=TOPIC, group_name=""),
    given("log_claim", "TL404", **CLAIM | {"topic": "missing"}),
    given("log_claim", "TL404", **CLAIM | {"partition": 1}),
    given("log_claim", "TL409", **CLAIM | {"group_name": "billing"}),
    given("log_claim", "TL422", **CLAIM, max_messages=0),
    given("log_claim", "TL422", **CLAIM, max_messages=-7),
    given("log_claim", "TL422", **CLAIM, deadline=timedelta(0)),
    given("log_claim", "TL422", **CLAIM, deadline=-HOUR),
    given("log_claim", "TL422", **CLAIM, deadline="999999 years"),
    given("log_claim", "TL422", **CLAIM, max_attempts=0),
    given("log_claim", "TL422", **CLAIM | {"group_name": "new"}, start="yesterday-ish"),
    given("log_claim", "TL422", **CLAIM | {"group_name": "new"}, start=""),
    given("log_claim", "TL422", **CLAIM | {"group_name": "new"}, start="0"),
    given("log_claim", "TL422", **CLAIM | {"group_name": "new"}, start="-3"),
    given("log_claim", "TL422", **CLAIM | {"group_name": "new"}, start="9" * 30),
    given("log_claim", "TL410", **CLAIM | {"group_name": "new"}, start="4"),
    given("log_claim", "TL410", **CLAIM | {"group_name": "new"}, start="12"),
    given("log_ack", "TL423", **CLAIM, claim=-1),
    given("log_ack", "TL423", **CLAIM | {"group_name": "missing"}, claim=1),
    given("log_ack", "TL404", **CLAIM | {"topic": "missing"}, claim=1),
    given("log_release", "TL423", **CLAIM, claim=LARGEST, retry_after="999999 years"),
    given("log_extend", "TL422", **CLAIM, claim=1, deadline=timedelta(0)),
    given("log_extend", "TL422", **CLAIM, claim=1, deadline=-HOUR),
    given("log_extend", "TL422", **CLAIM, claim=1, deadline="999999 years"),
    given("log_extend", "TL423", **CLAIM, claim=0, deadline=HOUR),
    given("log_bury", "TL423", **CLAIM, claim=-1),
    given("log_bury", "TL404", **CLAIM | {"topic": "missing"}, claim=1),
    # dead letters
    given("log_dead_list", "TL404", topic="missing"),
    given("log_dead_show", "TL404", topic="missing", letter=1),
    given("log_dead_show", "TL404", topic=TOPIC, letter=LARGEST),
    given("log_dead_retry", "TL404", topic="missing", group_name="readers"),
    given("log_dead_retry", "TL404", topic=TOPIC, letter=-1),
    given("log_dead_retry", "TL422", topic=TOPIC, letter=1, group_name="readers"),
    given("log_dead_discard", "TL404", topic="state", letter=1),
    given("log_dead_discard", "TL422", topic=TOPIC),
    # groups
    given("log_join", "TL404", topic="missing", group_name="billing", process=PRODUCER),
    given("log_join", "TL409", topic=TOPIC, group_name="readers", process=PRODUCER),
    given("log_join", "TL423", topic=TOPIC, group_name="billing", process=PRODUCER),
    given("log_leave", "TL404", topic="missing", group_name="billing", process=PRODUCER),
    given("log_commit", "TL404", **COMMIT | {"topic": "missing"}),
    given("log_commit", "TL404", **COMMIT | {"partition": 7}),
    given("log_commit", "TL423", **COMMIT | {"epoch": 99}),
    given("log_commit", "TL423", **COMMIT | {"group_name": "missing"}),
    given("log_commit", "TL422", **COMMIT | {"up_to": 11}),
    given("log_commit", "TL422", **COMMIT | {"up_to": LARGEST}),
    given("log_commit", "TL422", **COMMIT | {"up_to": -1}),
    given("log_progress", "TL404", **PROGRESS | {"topic": "missing"}),
    given("log_progress", "TL404", **PROGRESS | {"partitions": [7]}),
    given("log_progress", "TL422", **PROGRESS | {"up_to": [5, 6]}),
    given("log_progress", "TL422", **PROGRESS | {"up_to": [11]}),
    given("log_progress", "TL422", **PROGRESS | {"up_to": [LARGEST]}),
    given("log_progress", "TL422", **PROGRESS | {"up_to": [None]}),
    given("log_progress", "TL422", **PROGRESS | {"up_to": [-1]}),
    given("log_seek", "TL404", topic="missing", group_name="billing", start="earliest"),
    given("log_seek", "TL404", topic=TOPIC, group_name="missing", start="earliest"),
    given("log_seek", "TL404", topic=TOPIC, group_name="billing", start="earliest", partition=3),
    given("log_seek", "TL422", topic=TOPIC, group_name="billing", start="soon"),
    given("log_seek", "TL422", topic=TOPIC, group_name="billing", start="9" * 30),
    given("log_seek", "TL410", topic=TOPIC, group_name="billing", start="1"),
    given("log_seek", "TL410", topic=TOPIC, group_name="billing", start="12"),
    given("log_group_delete", "TL404", topic="missing", group_name="billing"),
    given("log_group_delete", "TL404", topic=TOPIC, group_name="missing"),
    # upkeep
    given("log_trim", "TL404", topic="missing", partition=0, before_offset=1),
    given("log_trim", "TL404", topic=TOPIC, partition=5, before_offset=1),
    given("log_trim", "TL422", topic=TOPIC, partition=0, before_offset=0),
    given("log_trim", "TL422", topic=TOPIC, partition=0, before_offset=-4),
    given("log_trim", "TL422", topic=TOPIC, partition=0, before_offset=12),
    given("log_compact", "TL404", topic="missing"),
    given("log_compact", "TL422", topic=TOPIC),
    given("log_compact", "TL404", topic="state", partition=4),
]


@pytest.mark.parametrize(("function", "arguments", "state"), CASES)
def test_bad_input_is_refused_by_name_and_changes_nothing(
    furnished: Session, function: str, arguments: dict[str, Any], state: str
) -> None:
    before = everything(furnished)
    with refused(state) as caught:
        call(furnished, function, **arguments)
    assert everything(furnished) == before
    message = caught.value.diag.message_primary or ""
    assert message.endswith(".")
    assert "<NULL>" not in message


def test_an_array_of_arrays_is_called_what_it_is(furnished: Session) -> None:
    with refused("TL422") as caught:
        call(furnished, "log_append", **APPEND | {"payloads": [[b"x"], [b"y"]]})
    assert "got an array of 2 dimensions." in str(caught.value)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("log_archives", {"topic": "missing"}),
        ("log_archives", {"topic": "missing", "partition": 0}),
        ("log_describe", {"topic": "missing"}),
        ("log_ends", {"topics": ["missing"]}),
    ],
)
def test_a_topic_is_missed_also_where_there_is_none_and_no_index_is_used(
    session: Session, function: str, arguments: dict[str, Any]
) -> None:
    for way in ("indexscan", "indexonlyscan", "bitmapscan"):
        session.execute(f"set enable_{way} = off")
    with refused("TL404"):
        call(session, function, **arguments)


def test_fewer_partitions_are_refused(session: Session) -> None:
    create(session, "wide", partitions=3)
    with refused("TL422"):
        call(session, "log_alter", topic="wide", partitions=2)


def test_the_same_settings_again_are_harmless(session: Session) -> None:
    settings = {"partitions": 2, "retention": HOUR, "retention_bytes": 10, "codec": "zstd"}
    first = call(session, "log_create", topic=TOPIC, **settings)
    assert call(session, "log_create", topic=TOPIC, **settings) == first


def test_a_retention_of_ages_means_for_ever(session: Session) -> None:
    create(session, retention=HOUR, retention_bytes=100)
    query = "select retention, retention_bytes from trunkline.log_alter(%s, %s, %s, %s)"
    answer = session.execute(query, [TOPIC, None, "9999 years", 0]).fetchone()
    assert answer == (None, None)


# Sizes


def test_a_message_or_batch_over_the_limit_is_refused(session: Session) -> None:
    create(session)
    configure(session, log__message_bytes="100", log__batch_bytes="250")
    append(session, b"x" * 100)
    for values in ([b"x" * 101], [b"x" * 100] * 3):
        with refused("TL413") as caught:
            append(session, *values)
        assert "at most" in str(caught.value)
    with refused("TL413"):
        append(session, b"x", keys=[b"k" * 300])
    with refused("TL413"):
        append(session, b"x", headers=[{"long": "x" * 300}])
    packed = pack([b"x" * 90] * 3)
    with refused("TL413"):
        call(session, "log_append_batch", topic=TOPIC, partition=0, **columns(packed))
    many = pack([b""] * 100)  # the ends count too
    with refused("TL413"):
        call(session, "log_append_batch", topic=TOPIC, partition=0, **columns(many))
    assert list(read(session)) == [1]


# Names


@pytest.mark.parametrize("name", ABSURD_NAMES.values(), ids=ABSURD_NAMES.keys())
def test_absurd_names_are_refused_and_never_found(furnished: Session, name: str) -> None:
    before = everything(furnished)
    with refused("TL422"):
        create(furnished, name)
    with refused("TL422"):
        claim(furnished, group=name)
    owner = ask(furnished, "select process from trunkline.lease")
    with refused("TL422"):
        join(furnished, owner, group=name)
    with refused("TL404"):
        append(furnished, b"x", topic=name)
    with refused("TL404"):
        read(furnished, topic=name)
    for function in ("log_seek", "log_group_delete"):
        more = {"start": "earliest"} if function == "log_seek" else {}
        with refused("TL404"):
            call(furnished, function, topic=TOPIC, group_name=name, **more)
    with refused("TL404"):
        call(furnished, "log_groups", topic=name)
    assert everything(furnished) == before


@pytest.mark.parametrize("name", ODD_BUT_FINE, ids=lambda name: name[:10])
def test_odd_names_work(session: Session, name: str) -> None:
    create(session, name)
    assert append(session, b"x", topic=name) == (1, 1)
    claimed = claim(session, topic=name, group=name)
    assert claimed is not None
    assert claimed.offsets == [1]
    ((share),) = join(session, process(session), name, topic=name, group=f"{name[:190]}-2")
    assert share.up_to == 0


# Record batches


def columns(packed: Any) -> dict[str, Any]:
    names = ("n", "value_ends", "payload", "value_valid", "key_ends", "keys", "key_valid")
    found = {name: getattr(packed, name) for name in (*names, "headers")}
    return {**found, "codec": int(packed.codec)}


GOOD = columns(pack([b"ab", b"c", b""], keys=[b"k", None, b"l"], headers=[{"a": 1}, None, {}]))
SQUEEZED = columns(pack([b"ab", b"c"], keys=[b"k", b"l"], headers=[{}, None], codec=Codec.ZSTD))


def ends(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}i", *numbers)


MALFORMED: dict[str, dict[str, Any]] = {
    "no messages": GOOD | {"n": 0},
    "less than none": GOOD | {"n": -1},
    "fewer than the ends say": GOOD | {"n": 2},
    "more than the ends say": GOOD | {"n": 4},
    "as many as an int holds": GOOD | {"n": LARGEST_INT},
    "one less than that": GOOD | {"n": LARGEST_INT - 1},
    "unknown codec": GOOD | {"codec": 2},
    "negative codec": GOOD | {"codec": -1},
    "no values": GOOD | {"payload": None},
    "no ends": GOOD | {"value_ends": None},
    "empty ends": GOOD | {"value_ends": b""},
    "half an end": GOOD | {"value_ends": GOOD["value_ends"] + b"\x00"},
    "ends that do not begin at 0": GOOD | {"value_ends": ends(1, 2, 3, 3)},
    "ends beyond the values": GOOD | {"value_ends": ends(0, 2, 3, 4)},
    "ends short of the values": GOOD | {"value_ends": ends(0, 1, 1, 2)},
    "negative last end": GOOD | {"value_ends": ends(0, 2, 3, -3)},
    "keys without ends": GOOD | {"key_ends": None},
    "ends without keys": GOOD | {"keys": None},
    "key ends that do not begin at 0": GOOD | {"key_ends": ends(1, 1, 1, 2)},
    "key ends beyond the keys": GOOD | {"key_ends": ends(0, 1, 1, 3)},
    "too few key ends": GOOD | {"key_ends": ends(0, 1, 2)},
    "validity without keys": GOOD | {"keys": None, "key_ends": None},
    "short key validity": GOOD | {"key_valid": b""},
    "long key validity": GOOD | {"key_valid": b"\x05\x00"},
    "long value validity": GOOD | {"value_valid": b"\x07\x00"},
    "headers that are no JSON": GOOD | {"headers": b"{"},
    "headers that are no text": GOOD | {"headers": b"\xff\xfe"},
    "headers with a NUL": GOOD | {"headers": b'[{"a": "\\u0000"}, null, null]'},
    "empty headers": GOOD | {"headers": b""},
    "headers of one": GOOD | {"headers": b"[{}]"},
    "headers that are an object": GOOD | {"headers": b"{}"},
    "headers that are no objects": GOOD | {"headers": b'[{}, 1, "x"]'},
    "plain values said to be zstd": GOOD | {"codec": 1},
    "zstd said to be plain": SQUEEZED | {"codec": 0},
    "zstd with plain ends": SQUEEZED | {"value_ends": ends(0, 2, 3)},
    "zstd with plain keys": SQUEEZED | {"keys": b"kl"},
    "zstd with plain headers": SQUEEZED | {"headers": b"[{}, null]"},
    "zstd that is empty": SQUEEZED | {"payload": b""},
    "a producer without a number": GOOD | {"producer_id": PRODUCER},
    "a number without a producer": GOOD | {"producer_seq": 1},
}


@pytest.mark.parametrize("batch", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_record_batch_is_refused(furnished: Session, batch: dict[str, Any]) -> None:
    before = everything(furnished)
    with refused("TL422"):
        call(furnished, "log_append_batch", topic=TOPIC, partition=0, **batch)
    assert everything(furnished) == before


def test_headers_that_the_encoding_of_the_database_lacks_are_named(server: AnyServer) -> None:
    with new_database(server, template="template0", encoding="LATIN1") as name:
        migrate.install(server.dsn(name))
        with closing(psycopg.connect(server.dsn(name), autocommit=True)) as session:
            create(session)
            kept = GOOD | {"headers": '[{"a": "é"}, null, null]'.encode()}
            call(session, "log_append_batch", topic=TOPIC, partition=0, **kept)
            lacking = GOOD | {"headers": '[{"a": "語"}, null, null]'.encode()}
            with refused("TL422") as refusal:
                call(session, "log_append_batch", topic=TOPIC, partition=0, **lacking)
    assert "LATIN1" in (refusal.value.diag.message_primary or "")


def test_well_formed_record_batches_are_taken(session: Session) -> None:
    create(session)
    for number, batch in enumerate((GOOD, SQUEEZED, GOOD | {"headers": None})):
        ((first, last, _at),) = call(session, "log_append_batch", topic=TOPIC, partition=0, **batch)
        assert last - first + 1 == batch["n"], number


def test_a_batch_with_ends_out_of_order_is_an_error_for_its_readers(session: Session) -> None:
    """The server does not look at every end: a reader is told, and told where."""
    create(session)
    batch = GOOD | {"value_ends": ends(0, 3, 1, 3)}
    call(session, "log_append_batch", topic=TOPIC, partition=0, **batch)
    with refused("TL422") as caught:
        read(session)
    assert "offset 1 is damaged" in str(caught.value)


# NULL

SOUND: dict[str, dict[str, Any]] = {
    "log_ack": {**CLAIM, "claim": "claim"},
    "log_alter": {
        "topic": TOPIC,
        "partitions": 1,
        "retention": HOUR,
        "retention_bytes": 10,
        "compact": False,
        "codec": "none",
        "early_release": False,
        "archive": False,
    },
    "log_append": {
        **APPEND,
        "keys": [b"k"],
        "headers": [Jsonb({})],
        "producer_id": PRODUCER,
        "producer_seq": 1,
    },
    "log_append_batch": {
        "topic": TOPIC,
        "partition": 0,
        **GOOD,
        "value_valid": None,
        "producer_id": PRODUCER,
        "producer_seq": 1,
        "release_early": False,
    },
    "log_append_text": {"topic": TOPIC, "message": "x", "key": "k", "headers": Jsonb({})},
    "log_archivable": {"topic": "kept"},
    "log_archive_add": {
        "topic": "kept",
        "partition": 0,
        "first_offset": 1,
        "last_offset": 2,
        "messages": 2,
        "bytes": 10,
        "location": "/archive",
        "format": "parquet",
        "files": Jsonb([{"path": "x", "messages": 2}]),
        "checksum": CHECKSUM,
        "segment_id": "segment",
    },
    "log_archives": {"topic": "kept", "partition": 0, "from_offset": 1},
    "log_bury": {
        **CLAIM,
        "claim": "claim",
        "reason": "x",
        "payload": b"x",
        "key": b"k",
        "headers": Jsonb({}),
        "at": "2030-01-01",
    },
    "log_claim": {
        **CLAIM,
        "max_messages": 1,
        "deadline": HOUR,
        "max_attempts": 5,
        "process": "process",
        "start": "earliest",
        "archived": False,
    },
    "log_commit": {**COMMIT, "incarnation": 1},
    "log_compact": {"topic": "state", "partition": 0},
    "log_create": {
        "topic": "new",
        "partitions": 1,
        "retention": HOUR,
        "retention_bytes": 10,
        "compact": False,
        "codec": "none",
        "early_release": False,
        "archive": False,
    },
    "log_dead_discard": {"topic": TOPIC, "letter": 1, "group_name": None},
    "log_dead_list": {"topic": TOPIC, "group_name": "readers"},
    "log_dead_retry": {"topic": TOPIC, "letter": 1, "group_name": None},
    "log_dead_show": {"topic": TOPIC, "letter": 1},
    "log_delete": {"topic": TOPIC},
    "log_describe": {"topic": TOPIC},
    "log_ends": {"topics": [TOPIC]},
    "log_extend": {**CLAIM, "claim": "claim", "deadline": HOUR},
    "log_fetch": {**FETCH, "max_messages": 1, "max_bytes": 1, "incarnation": 1},
    "log_flush": {},
    "log_group_delete": {"topic": TOPIC, "group_name": "billing"},
    "log_behind": {"topic": TOPIC, "group_name": "billing"},
    "log_groups": {"topic": TOPIC, "group_name": "billing"},
    "log_join": {
        "topic": TOPIC,
        "group_name": "new",
        "process": "process",
        "member": "",
        "start": "earliest",
    },
    "log_lag": {"topic": TOPIC, "group_name": "billing"},
    "log_leave": {
        "topic": TOPIC,
        "group_name": "billing",
        "process": "process",
        "member": "",
        "partitions": [0],
    },
    "log_claimable": {"topic": TOPIC, "group_name": "readers"},
    "log_list": {},
    "log_offset_at": {"topic": TOPIC, "partition": 0, "at_time": "2030-01-01"},
    "log_partition_of": {"key": b"k", "partitions": 3},
    "log_position_check": {"topic": TOPIC, "partition": 0, "next_offset": 6, "incarnation": 1},
    "log_progress": PROGRESS,
    "log_read": {
        "topic": TOPIC,
        "partition": 0,
        "from_offset": 5,
        "max_messages": 1,
        "max_bytes": 1,
    },
    "log_ready": {"topic": TOPIC, "partitions": [0], "up_to": [0]},
    "log_release": {**CLAIM, "claim": "claim", "retry_after": HOUR, "reason": "x"},
    "log_seek": {"topic": TOPIC, "group_name": "billing", "start": "earliest", "partition": 0},
    "log_segments_drop": {},
    "log_segments_retire": {},
    "log_segments_seal": {},
    "log_settings": {"topic": TOPIC},
    "log_topics_compact": {},
    "log_trim": {"topic": TOPIC, "partition": 0, "before_offset": 6},
    "log_verify": {"topic": TOPIC},
}

# Where NULL means something: left as it is, chosen by us, all of them, not given.
MEANINGFUL = {
    "log_alter": "partitions retention retention_bytes compact codec early_release archive",
    "log_append": "partition keys headers",
    "log_append_batch": "value_valid key_valid headers release_early",
    "log_append_text": "key headers",
    "log_archivable": "topic",
    "log_archives": "partition from_offset",
    "log_bury": "reason key headers at",
    "log_claim": "deadline process start",
    "log_commit": "incarnation",
    "log_compact": "partition",
    "log_create": "retention retention_bytes",
    "log_dead_discard": "group_name",
    "log_dead_list": "topic group_name",
    "log_dead_retry": "group_name",
    "log_ends": "topics",
    "log_fetch": "incarnation",
    "log_behind": "topic group_name",
    "log_groups": "topic group_name",
    "log_join": "member",
    "log_lag": "topic group_name",
    "log_leave": "group_name process member partitions",
    "log_partition_of": "key partitions",
    "log_ready": "partitions up_to",
    "log_release": "retry_after reason",
    "log_seek": "partition",
}


NULLS = [
    pytest.param(function, name, id=f"{function}-{name}")
    for function, arguments in SOUND.items()
    for name in (None, *arguments)
]


@pytest.mark.parametrize(("function", "name"), NULLS)
def test_null_for_any_argument_is_refused_by_name_or_means_something(
    furnished: Session, function: str, name: str | None
) -> None:
    """Without a name the call is sound, and has to be: else the other cases would prove little."""
    arguments = dict(SOUND[function])
    claimed = (
        "select c.claim from trunkline.cursor_key k"
        " join trunkline.cursor p on p.cursor_id = k.cursor_id and starts_with(k.resource, 'log:')"
        " cross join lateral trunkline._log_claims(p.state) c"
    )
    sealed = "select segment_id from trunkline.log_archivable('kept')"
    present = {
        "claim": claimed,
        "process": "select process from trunkline.lease",
        "segment_id": sealed,
    }
    for argument, query in present.items():
        if arguments.get(argument) in (argument, argument.removesuffix("_id")):
            arguments[argument] = ask(furnished, query)
    if name is not None:
        arguments[name] = None
    means_something = name is None or name in MEANINGFUL.get(function, "").split()
    with furnished.transaction(force_rollback=True):
        if means_something:
            call(furnished, function, **arguments)
        else:
            with pytest.raises(psycopg.Error) as caught:
                call(furnished, function, **arguments)
            assert str(caught.value.sqlstate).startswith("TL4"), caught.value


def test_every_public_function_is_tried_with_nulls(session: Session) -> None:
    arguments = """select proname, coalesce(array(
          select proargnames[i] from generate_series(1, pronargs) i), '{}')
        from pg_proc where pronamespace = 'trunkline'::regnamespace and proname like 'log\\_%%'"""
    public = {name: set(names) for name, names in session.execute(arguments, [])}
    assert {name: set(found) for name, found in SOUND.items()} == public
