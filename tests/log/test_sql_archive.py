"""The archive in SQL: nothing leaves before it is copied, and the manifest has no gap."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.asking import Session, ask, call, called, column, refused
from tests.log.archiving import CHECKSUM, add, drop_archived
from tests.log.steps import (
    TOPIC,
    append,
    claim,
    commit,
    configure,
    create,
    current_segment,
    fetch,
    fill,
    join,
    maintain,
    process,
    read,
    restore,
    seal,
    segments,
)

if TYPE_CHECKING:
    from tests.fixtures.postgres import TwoSessions

HOUR = timedelta(hours=1)


def three_segments(session: Session, **settings: Any) -> None:
    """Offsets 1 to 4, 5 to 8, and 9 to 12 in the one that takes appends."""
    create(session, **({"archive": True} | settings))
    for number in range(3):
        fill(session, 4)
        if number < 2:
            seal(session)
    assert segments(session) == [(1, 4), (5, 8), (9, None)]


def grow_old(session: Session) -> None:
    session.execute("update trunkline.log_segment set last_at = last_at - interval '2 hours'")


def described(session: Session) -> dict[str, Any]:
    row = called(session, "log_describe", topic=TOPIC).fetchone()
    assert row is not None
    return row


def archivable(session: Session) -> list[tuple[int, int]]:
    rows = called(session, "log_archivable", topic=TOPIC).fetchall()
    return [(row["first_offset"], row["last_offset"]) for row in rows]


# What leaves, and when


def test_retention_never_takes_what_is_not_archived(session: Session) -> None:
    three_segments(session, retention=HOUR, retention_bytes=1)
    grow_old(session)
    maintain(session)
    assert segments(session) == [(1, 4), (5, 8), (9, None)]
    add(session, 1, 4)
    maintain(session)
    assert segments(session) == [(5, 8), (9, None)]
    assert list(read(session, start=5)) == [5, 6, 7, 8, 9, 10, 11, 12]


def test_what_is_archived_stays_for_a_while_and_then_leaves_although_it_is_kept_for_ever(
    session: Session,
) -> None:
    three_segments(session)
    add(session, 1, 4)
    maintain(session)
    assert segments(session)[0] == (1, 4)
    session.execute("update trunkline.log_archive set at = at - interval '25 hours'")
    maintain(session)
    assert segments(session) == [(5, 8), (9, None)]


def test_a_topic_that_does_not_ask_loses_its_segments_as_before(session: Session) -> None:
    three_segments(session, retention=HOUR, archive=False)
    grow_old(session)
    maintain(session)
    assert segments(session) == [(9, None)]


def test_a_topic_that_begins_to_ask_is_not_robbed_by_maintenance_under_way(
    session: Session, two: TwoSessions
) -> None:
    three_segments(session, retention=HOUR, archive=False)
    grow_old(session)
    call(two.a, "log_alter", topic=TOPIC, archive=True)
    assert call(two.b, "log_segments_retire") == [(False,)]
    two.a.commit()
    assert call(two.b, "log_segments_retire") == [(False,)]
    two.b.commit()
    assert segments(session) == [(1, 4), (5, 8), (9, None)]


def test_a_trim_takes_what_is_not_archived_and_forgets_what_is(session: Session) -> None:
    three_segments(session)
    add(session, 1, 4)
    add(session, 5, 8)
    drop_archived(session)
    assert described(session)["archived_first"] == 1
    assert call(session, "log_trim", topic=TOPIC, partition=0, before_offset=7) == [(9,)]
    assert described(session)["archived_first"] == 7
    with refused("TL410") as caught:
        read(session, start=6)
    assert "archived" not in caught.value.diag.message_detail
    with refused("TL410") as caught:
        read(session, start=7)
    assert '"archived": true' in caught.value.diag.message_detail
    rows = called(session, "log_archives", topic=TOPIC).fetchall()
    assert [(row["first_offset"], row["last_offset"]) for row in rows] == [(5, 8)]


def test_an_archive_leaves_with_its_topic(session: Session) -> None:
    three_segments(session)
    add(session, 1, 4)
    call(session, "log_delete", topic=TOPIC)
    assert column(session, "select first_offset from trunkline.log_archive") == []


# What is told


def test_a_topic_says_what_is_archived(session: Session) -> None:
    three_segments(session)
    assert archivable(session) == [(1, 4), (5, 8)]
    assert (described(session)["archived_first"], described(session)["archived_last"]) == (
        None,
        None,
    )
    add(session, 1, 4)
    assert archivable(session) == [(5, 8)]
    add(session, 5, 8)
    drop_archived(session)
    assert archivable(session) == []
    found = described(session)
    assert (found["first_offset"], found["archived_first"], found["archived_last"]) == (9, 1, 8)


def test_an_archived_offset_is_refused_with_the_files_that_hold_it(session: Session) -> None:
    three_segments(session)
    add(session, 1, 4)
    add(session, 5, 8)
    drop_archived(session)
    for function in ("log_read", "log_fetch"):
        with refused("TL410") as caught:
            call(session, function, topic=TOPIC, partition=0, from_offset=6)
        facts = json.loads(caught.value.diag.message_detail)
        assert facts["archived"] is True
        assert (facts["first"], facts["last"], facts["hot"]) == (5, 8, 9)
        assert facts["location"] == "/archive/orders"
        assert facts["files"] == [{"path": "5.parquet", "messages": 4}]
        assert facts["before"] == 1
        assert "client" in caught.value.diag.message_hint


def test_a_reader_of_another_history_is_refused_where_the_archive_meets_the_database(
    session: Session,
) -> None:
    three_segments(session)
    add(session, 1, 4)
    add(session, 5, 8)
    drop_archived(session)
    session.execute("update trunkline.log_archive set incarnation = 3 where first_offset = 5")
    assert fetch(session, 9, incarnation=3)
    with refused("TL410") as caught:
        fetch(session, 9, incarnation=2)
    facts = json.loads(caught.value.diag.message_detail)
    assert (facts["incarnation"], facts["cut"]) == (3, 4)
    session.execute("delete from trunkline.log_archive")
    assert fetch(session, 9, incarnation=2)  # nobody knows what was before


def test_a_commit_of_another_history_is_refused_among_archived_offsets_too(
    session: Session,
) -> None:
    """The server failed over to a standby that had six messages, and all is archived by now."""
    create(session, archive=True)
    for number in range(1, 5):
        fill(session, 4)
        seal(session)
        add(session, number * 4 - 3, number * 4)
    drop_archived(session)
    restore(session)
    session.execute("delete from trunkline.log_archive_life")  # archived before lives were noted
    life = ask(session, "select min(incarnation) from trunkline.log_archive")
    newer = ask(
        session,
        "update trunkline.log_archive set incarnation = incarnation + 7"
        " where first_offset in (5, 9, 13) returning incarnation",
    )
    (share,) = join(session, process(session))
    for up_to in (8, 10, 12, 16):
        with refused("TL410") as caught:
            commit(session, share, up_to, incarnation=life)
        facts = json.loads(caught.value.diag.message_detail or "{}")
        assert (facts["cut"], facts["incarnation"]) == (4, newer)
    commit(session, share, 4, incarnation=life)
    commit(session, share, 6, incarnation=life)  # which of the two wrote it only the files know
    for up_to in (8, 10, 16):
        commit(session, share, up_to, incarnation=newer)


def test_a_commit_into_an_archived_segment_of_two_lives_is_compared_with_the_one_that_wrote_there(
    session: Session,
) -> None:
    """The server failed over to a standby that had six messages; others have appended since."""
    create(session, archive=True)
    fill(session, 4)
    seal(session)
    add(session, 1, 4)
    fill(session, 2)
    fill(session, 3)
    life, newer = ask(session, "select trunkline.incarnation()"), restore(session)
    session.execute(
        f"update {current_segment(session)} set incarnation = %s where base_offset > 6", [newer]
    )
    seal(session)
    add(session, 5, 9)
    drop_archived(session)
    (share,) = join(session, process(session))
    for up_to in (7, 8, 9):
        with refused("TL410") as caught:
            commit(session, share, up_to, incarnation=life)
        facts = json.loads(caught.value.diag.message_detail or "{}")
        assert (facts["cut"], facts["incarnation"]) == (6, newer)
    for up_to, seen in ((5, life), (6, life), (7, newer), (9, newer)):
        commit(session, share, up_to, incarnation=seen)


def test_earliest_is_the_archive_and_hot_is_the_database(session: Session) -> None:
    three_segments(session)
    add(session, 1, 4)
    add(session, 5, 8)
    drop_archived(session)
    assert join(session, process(session))[0].up_to == 0
    for start, place in (("earliest", 1), ("hot", 9), ("6", 6), ("latest", 13)):
        rows = call(session, "log_seek", topic=TOPIC, group_name="billing", start=start)
        assert rows == [(0, place)]


def test_a_time_means_the_archived_segment_it_lies_in(session: Session) -> None:
    three_segments(session)
    add(session, 1, 4)
    add(session, 5, 8)
    drop_archived(session)
    session.execute(
        "update trunkline.log_archive"
        " set last_at = timestamptz '2030-01-01' + first_offset * interval '1 day'"
    )
    for time, place in (
        ("2029-01-01", 1),
        ("2030-01-02", 1),
        ("2030-01-03", 5),
        ("2031-01-01", 13),
    ):
        rows = call(session, "log_offset_at", topic=TOPIC, partition=0, at_time=time)
        assert rows == [(place,)], time


def test_a_time_is_found_in_the_archive_also_when_its_segment_leaves_meanwhile(
    session: Session, two: TwoSessions
) -> None:
    three_segments(session)
    add(session, 1, 4)
    configure(session, log__archived_retention="0")
    two.a.execute("lock table trunkline.log_archive")
    query = "select trunkline.log_offset_at(%s, 0, '2020-01-01')"
    looking = two.later(two.b, query, [TOPIC])
    two.blocked_by(two.a, two.b)
    two.a.execute("select trunkline.log_segments_retire()")
    two.a.commit()
    assert looking.result(10).fetchone() == (1,)
    assert segments(session) == [(5, 8), (9, None)]


def test_a_claim_gets_archived_offsets_only_if_it_can_read_them(session: Session) -> None:
    three_segments(session)
    add(session, 1, 4)
    add(session, 5, 8)
    drop_archived(session)
    with refused("TL410") as caught:
        claim(session, 3)
    assert '"archived": true' in caught.value.diag.message_detail
    claimed = claim(session, 3, HOUR, archived=True)
    assert claimed is not None
    assert claimed.offsets == [1, 2, 3]


def test_a_hole_that_retention_made_meanwhile_is_not_called_archived(session: Session) -> None:
    three_segments(session, retention=HOUR)
    add(session, 1, 4)
    call(session, "log_alter", topic=TOPIC, archive=False)
    grow_old(session)
    maintain(session)
    assert segments(session) == [(9, None)]
    call(session, "log_alter", topic=TOPIC, archive=True)
    assert join(session, process(session))[0].up_to == 8
    with refused("TL410") as caught:
        read(session, start=5)
    assert "archived" not in caught.value.diag.message_detail
    with refused("TL410") as caught:
        read(session, start=2)
    assert '"archived": true' in caught.value.diag.message_detail
    seal(session)
    add(session, 9, 12)
    assert described(session)["archived_first"] == 9


# What is refused


def test_the_manifest_takes_segments_whole_and_in_their_order(session: Session) -> None:
    three_segments(session)
    for first, last in ((5, 8), (1, 3), (2, 4), (1, 8), (9, 12), (13, 16), (3, 6)):
        with refused("TL409"):
            add(session, first, last)
    add(session, 1, 4)
    with refused("TL409"):
        add(session, 9, 12)
    add(session, 5, 8)
    assert archivable(session) == []


def test_the_same_row_again_is_harmless_and_another_one_is_a_conflict(session: Session) -> None:
    three_segments(session)
    first = add(session, 1, 4)
    assert add(session, 1, 4) == first
    for other in (
        {"location": "/elsewhere"},
        {"checksum": CHECKSUM[:-1] + "1"},
        {"files": '[{"path": "other.parquet", "messages": 4}]'},
        {"format": "delta"},
        {"bytes": 99},
    ):
        with refused("TL409"):
            add(session, 1, 4, **other)
    drop_archived(session)
    assert add(session, 1, 4, segment_id=first[0][11]) == first


def test_of_two_archivers_at_once_one_is_told_that_it_was_late(
    session: Session, two: TwoSessions
) -> None:
    three_segments(session)
    add(two.a, 1, 4)
    number = ask(session, "select min(segment_id) from trunkline.log_segment")
    late = two.later(
        two.b,
        "select trunkline.log_archive_add('orders', 0, 1, 4, 4, 100, '/late', 'parquet',"
        """ '[{"path": "x", "messages": 4}]', %s, %s)""",
        [CHECKSUM, number],
    )
    two.blocked_by(two.a, two.b)
    two.a.commit()
    with refused("TL409"):
        late.result(10)
    two.b.rollback()
    assert column(session, "select location from trunkline.log_archive") == ["/archive/orders"]


def test_a_segment_cannot_leave_while_it_is_being_noted(session: Session, two: TwoSessions) -> None:
    three_segments(session)
    add(two.a, 1, 4)
    trimming = two.later(two.b, "select trunkline.log_trim('orders', 0, 9)")
    two.blocked_by(two.a, two.b)
    two.a.commit()
    trimming.result(10)
    two.b.commit()
    assert described(session)["first_offset"] == 9


RUBBISH: dict[str, dict[str, Any]] = {
    "nothing": {"first_offset": None},
    "backwards": {"first_offset": 4, "last_offset": 1},
    "too few": {"messages": 3},
    "too many": {"messages": 5},
    "no bytes": {"bytes": 0},
    "no location": {"location": None},
    "empty location": {"location": ""},
    "relative location": {"location": "archive/orders"},
    "location with a password": {"location": "s3://me:secret@bucket/orders"},
    "unknown format": {"format": "csv"},
    "no files": {"files": "[]"},
    "files are no list": {"files": '{"path": "x"}'},
    "files are texts": {"files": '["x"]'},
    "file without a path": {"files": '[{"messages": 4}]'},
    "absolute path": {"files": '[{"path": "/etc/passwd", "messages": 4}]'},
    "path that climbs": {"files": '[{"path": "a/../../b", "messages": 4}]'},
    "file without a count": {"files": '[{"path": "x"}]'},
    "count that is text": {"files": '[{"path": "x", "messages": "many"}]'},
    "counts do not add up": {"files": '[{"path": "x", "messages": 3}]'},
    "null files": {"files": None},
    "no checksum": {"checksum": None},
    "checksum of no kind": {"checksum": "0" * 64},
    "checksum that is none": {"checksum": "columns-sha256:xyz"},
}


@pytest.mark.parametrize("other", RUBBISH.values(), ids=RUBBISH.keys())
def test_rubbish_is_no_row_of_the_manifest(session: Session, other: dict[str, Any]) -> None:
    three_segments(session)
    with refused("TL422"):
        add(session, 1, 4, **other)
    assert archivable(session) == [(1, 4), (5, 8)]


def test_a_segment_of_another_topic_or_none_is_refused(session: Session) -> None:
    three_segments(session)
    create(session, "other", archive=True)
    append(session, b"1", b"2", b"3", b"4", topic="other")
    seal(session, "other")
    of_other = ask(session, "select segment_id from trunkline.log_archivable('other')")
    for number in (of_other, 10**9, None):
        with refused("TL409"):
            add(session, 1, 4, segment_id=number)


def test_who_does_not_ask_or_is_compacted_is_not_archived(session: Session) -> None:
    create(session)
    with refused("TL422"):
        call(session, "log_archivable", topic=TOPIC)
    fill(session, 4)
    seal(session)
    with refused("TL422"):
        add(session, 1, 4)
    with refused("TL422"):
        create(session, "state", compact=True, archive=True)
    create(session, "state", compact=True)
    with refused("TL422"):
        call(session, "log_alter", topic="state", archive=True)
    append(session, b"1", b"2", topic="state", keys=[b"k", b"k"])
    seal(session, "state")
    configure(session, log__tombstone_retention="0")
    call(session, "log_compact", topic="state")
    call(session, "log_alter", topic="state", compact=False)
    with refused("TL422"):
        call(session, "log_alter", topic="state", archive=True)
    with refused("TL404"):
        call(session, "log_archivable", topic="nowhere")
    with refused("TL404"):
        call(session, "log_archives", topic="nowhere")
    with refused("TL404"):
        call(session, "log_archives", topic=TOPIC, partition=7)


def test_nothing_is_half_done_when_the_session_ends_before_its_commit(
    session: Session, connect: Any
) -> None:
    three_segments(session)
    dying = connect(autocommit=False)
    add(dying, 1, 4)
    dying.close()
    assert archivable(session) == [(1, 4), (5, 8)]
    add(session, 1, 4, location="/again")
    assert archivable(session) == [(5, 8)]
