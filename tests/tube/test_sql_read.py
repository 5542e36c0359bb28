"""Reading and acknowledging: ranges, lanes, priorities, epochs, and what leaves the ring."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.fixtures.asking import Session, ask, call, column, connections, refused, writing_nothing
from tests.tube.sql_steps import (
    TUBE,
    Reader,
    Share,
    ack,
    attach,
    ensure,
    head,
    join,
    member,
    read,
    tick,
    touch,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import TwoSessions


def positions(session: Session, tube: str = TUBE) -> dict[int, tuple[int, int]]:
    """Where the lanes of a tube stand."""
    rows = call(session, "tube_stats", tube=tube)
    return {row[1]: (row[5], row[6]) for row in rows}


# Touches


def test_keys_touched_by_hand_are_cut_into_entries_in_order(session: Session) -> None:
    session.execute("select trunkline.config_set('tube.entry_keys', '2')")
    touch(session, *map(str, range(9)))
    tick(session)
    assert [entry.keys for entry in read(session)] == [
        ["0", "1"],
        ["2", "3"],
        ["4", "5"],
        ["6", "7"],
        ["8"],
    ]


def test_operation_and_payload_come_back_with_the_keys(session: Session) -> None:
    """Also on entries with keys, where the seed discards the payload."""
    for op in "IUDT":
        touch(session, "k", op=op, payload=json.dumps({"op": op}))
    tick(session)
    assert [(entry.op, entry.payload) for entry in read(session)] == [
        (op, {"op": op}) for op in "IUDT"
    ]


def test_a_tick_numbers_each_entry_once(session: Session) -> None:
    touch(session, "a")
    touch(session, "b")
    assert (tick(session), tick(session)) == (2, 0)
    with writing_nothing(session):
        tick(session)


# Insert from a query


def test_a_flush_waits_for_a_tick_under_way_and_then_numbers_the_rest(
    two_sessions: TwoSessions,
) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    ensure(watcher)
    touch(watcher, "first")
    assert tick(a) == 1
    touch(watcher, "late")
    assert tick(watcher) == 0  # somebody is at it, and has not seen the late one
    flushing = two_sessions.later(b, "select trunkline.tube_flush()")
    two_sessions.blocked_by(a, b)
    a.commit()
    flushing.result(10)
    b.commit()
    assert [entry.keys for entry in read(watcher)] == [["first"], ["late"]]
    assert ask(watcher, "select trunkline.tube_flush()") == head(watcher) == 2


def notices(session: Session) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []
    session.add_notice_handler(lambda notice: heard.append(json.loads(notice.message_primary)))
    return heard


def test_a_query_is_turned_into_entries_in_its_order_with_progress(session: Session) -> None:
    heard = notices(session)
    query = "select g from generate_series(1, 1000) g order by g desc"
    rows = call(session, "tube_insert", tubes=[TUBE], query=query, shard=3, op="U", chunk=300)
    tick(session)
    entries = read(session)
    assert rows == [(1000,)]
    assert [len(entry.keys) for entry in entries] == [250, 50, 250, 50, 250, 50, 100]
    assert [key for entry in entries for key in entry.keys] == [str(n) for n in range(1000, 0, -1)]
    assert {(entry.op, entry.shard) for entry in entries} == {("U", 3)}
    assert heard[-1] | {"seconds": 0} == {"keys": 1000, "finished": True, "seconds": 0}


def test_a_query_goes_into_several_tubes_at_once_or_into_none(session: Session) -> None:
    ensure(session, "second")
    arguments: dict[str, Any] = {"query": "select 7", "shard": 0}
    with refused("TL404"):
        call(session, "tube_insert", tubes=[TUBE, "nowhere"], **arguments)
    call(session, "tube_insert", tubes=[TUBE, "second"], **arguments)
    tick(session)
    for tube in (TUBE, "second"):
        assert [entry.keys for entry in read(session, tube, priority=1)] == [["7"]]
        assert read(session, tube, priority=0) == []


@pytest.mark.parametrize(
    "query",
    [
        "with w as (select 5 as id) select id from w",
        "select id, status from orders limit 1 -- the first",
        "select id from (select\n id from orders) x",
        "values ('5'), ('5'), (null)",
        "table orders",
    ],
)
def test_any_query_will_do_whose_first_column_is_the_key(session: Session, query: str) -> None:
    session.execute("insert into orders values (5, 'new')")
    call(session, "tube_insert", tubes=[TUBE], query=query, shard=0)
    tick(session)
    assert [entry.keys for entry in read(session, priority=1)] == [["5"]]


def test_a_query_can_touch_rows_of_an_attached_table(session: Session, feed: Reader) -> None:
    query = "select '05' from generate_series(1, 3)"
    call(session, "tube_insert", tubes=[TUBE], query=query, shard=None, relation="orders", op="T")
    (entry,) = feed.new()
    assert (entry.relation, entry.keys) == ("orders", ["5"])


def test_a_query_without_rows_touches_nothing(session: Session) -> None:
    query = "select 1 where false"
    assert call(session, "tube_insert", tubes=[TUBE], query=query, shard=0) == [(0,)]
    assert tick(session) == 0


# Reading


def test_a_range_is_read_in_order_and_bounded(session: Session) -> None:
    start = head(session)
    for number in range(10):
        touch(session, str(number), op="B" if number % 2 else "T")
    tick(session)
    live = [entry.keys[0] for entry in read(session, from_position=start + 1)]
    assert live == ["0", "2", "4", "6", "8"]
    back = read(session, priority=1, from_position=start + 4, to_position=start + 8)
    assert [(entry.up_to - start, entry.keys) for entry in back] == [
        (4, ["3"]),
        (6, ["5"]),
        (8, ["7"]),
    ]
    first = read(session, from_position=start + 1, max_entries=2)
    assert [entry.keys[0] for entry in first] == ["0", "2"]
    after = read(session, from_position=first[-1].up_to + 1, max_entries=3)
    assert [entry.keys[0] for entry in after] == ["4", "6", "8"]
    assert read(session, from_position=head(session) + 1, to_position=head(session) + 99) == []


def test_backfill_entries_are_read_apart_and_never_delay_live_ones(session: Session) -> None:
    """A worker reads priority 0 whenever it likes; the degraded mode is to read nothing else."""
    for number in range(500):
        touch(session, f"b{number}", op="B")
    touch(session, "live")
    tick(session)
    assert [entry.keys for entry in read(session, max_entries=1)] == [["live"]]


def test_a_shard_is_always_in_the_same_lane_and_in_no_other(session: Session) -> None:
    ensure(session, lanes=3)
    for shard in range(12):
        touch(session, str(shard), shard=shard)
    touch(session, "last", shard=2**31 - 1)
    tick(session)
    for lane in range(3):
        shards = [entry.shard for entry in read(session, lane=lane)]
        assert shards == [s for s in [*range(12), 2**31 - 1] if s % 3 == lane]
    with refused("TL422"):
        read(session, lane=3)


def test_reading_writes_nothing(session: Session) -> None:
    touch(session, "a")
    tick(session)
    process = member(session)
    join(session, process)
    with writing_nothing(session):
        read(session)
        join(session, process)
        call(session, "tube_stats")
        head(session)


# Acknowledging


def test_each_priority_is_acknowledged_by_itself(session: Session) -> None:
    touch(session, "live")
    touch(session, "back", op="B")
    tick(session)
    (share,) = join(session, member(session))
    last, before = head(session), share.live_up_to
    ack(session, share, backfill_up_to=last)
    assert positions(session) == {0: (before, last)}
    ack(session, share)
    ack(session, share, live_up_to=last, backfill_up_to=before)
    assert positions(session) == {0: (last, last)}  # never backwards


def test_what_is_not_numbered_cannot_be_acknowledged(session: Session) -> None:
    (share,) = join(session, member(session))
    with refused("TL422"):
        ack(session, share, live_up_to=head(session) + 1)


def test_statistics_tell_what_waits_and_who_works(session: Session) -> None:
    ensure(session, lanes=2)
    touch(session, "a", shard=0)
    touch(session, "b", shard=0)
    touch(session, "c", shard=1, op="B")
    tick(session)
    process = uuid4()
    call(session, "lease_renew", process=process, name="worker 7")
    shares = join(session, process)
    cursor = session.execute("select * from trunkline.tube_stats(%s)", [TUBE])
    names = [part.name for part in cursor.description or ()]
    first, second = (dict(zip(names, row, strict=True)) for row in cursor)
    assert (first["live_entries"], first["backfill_entries"]) == (2, 0)
    assert (second["live_entries"], second["backfill_entries"]) == (0, 1)
    assert first["oldest_at"] is not None
    assert (first["process"], first["process_name"]) == (process, "worker 7")
    assert first["epoch"] == shares[0].epoch
    assert first["head"] == head(session)
    ack(session, shares[0], live_up_to=head(session), backfill_up_to=head(session))
    row = call(session, "tube_stats", tube=TUBE)[0]
    assert (row[2], row[3], row[4]) == (0, 0, None)


# Owners


def test_a_lane_has_one_worker_and_passes_to_another_when_it_leaves(session: Session) -> None:
    ensure(session, lanes=2)
    first, second = member(session), member(session)
    shares = join(session, first)
    assert [share.lane for share in shares] == [0, 1]
    assert join(session, second) == []
    surplus = [share.lane for share in join(session, first) if share.surplus]
    assert len(surplus) == 1
    call(session, "tube_leave", tube=TUBE, process=first, lanes=surplus)
    (taken,) = join(session, second)
    assert taken.lane == surplus[0]
    assert taken.epoch > shares[taken.lane].epoch
    with refused("TL423"):
        ack(session, shares[taken.lane], live_up_to=0)
    call(session, "tube_leave", tube=TUBE, process=first)
    assert [share.lane for share in join(session, second)] == [0, 1]


def test_a_worker_whose_lease_ended_can_no_longer_acknowledge(session: Session) -> None:
    touch(session, "a")
    tick(session)
    stopped, fresh = member(session), member(session)
    (old,) = join(session, stopped)
    session.execute(
        "update trunkline.lease set expires = clock_timestamp() where process = %s", [stopped]
    )
    (new,) = join(session, fresh)
    with refused("TL423"):
        ack(session, old, live_up_to=head(session))
    assert positions(session)[0] == (old.live_up_to, old.backfill_up_to)
    ack(session, new, live_up_to=head(session))
    with refused("TL423"):
        call(session, "tube_join", tube=TUBE, process=stopped)


def test_a_hand_over_comes_after_an_acknowledgement_under_way(two_sessions: TwoSessions) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    ensure(watcher)
    touch(watcher, "a")
    tick(watcher)
    (share,) = join(watcher, member(watcher))
    ack(a, share, live_up_to=1)
    watcher.execute("update trunkline.lease set expires = clock_timestamp()")
    heir, take = member(watcher), "select live_up_to from trunkline.tube_join('feed', %s)"
    assert b.execute(take, [heir]).fetchall() == []
    b.commit()
    a.commit()
    assert b.execute(take, [heir]).fetchall() == [(1,)]


# Other lanes


def undelivered(session: Session, shares: list[Share]) -> list[str]:
    """Keys that the owner of these lanes still has to deliver, sorted."""
    return sorted(
        key
        for share in shares
        for priority, start in ((0, share.live_up_to), (1, share.backfill_up_to))
        for entry in read(session, lane=share.lane, priority=priority, from_position=start + 1)
        for key in entry.keys
    )


def test_a_change_of_lanes_loses_nothing_and_fences_the_workers_of_before(
    session: Session,
) -> None:
    ensure(session, lanes=2)
    for shard in range(8):
        touch(session, str(shard), shard=shard, op="B" if shard > 5 else "T")
    tick(session)
    worker = member(session)
    old = join(session, worker)
    # lane 0 is done with its first entry, lane 1 with all
    ack(session, old[0], live_up_to=read(session, lane=0)[0].up_to)
    ack(session, old[1], live_up_to=head(session), backfill_up_to=head(session))
    ensure(session, lanes=3)
    for share in old:
        with refused("TL423"):
            ack(session, share, live_up_to=head(session))
    new = join(session, worker)
    assert [(share.lane, share.lanes) for share in new] == [(0, 3), (1, 3), (2, 3)]
    assert set(undelivered(session, new)) >= {"2", "4", "6"}
    with refused("TL423"):
        ack(session, Share(2, 3, 99, 0, 0, False), live_up_to=head(session))


def test_an_epoch_of_earlier_lanes_is_not_valid_when_their_number_comes_back(
    session: Session,
) -> None:
    """Else a worker that slept through both changes could acknowledge what it never did."""
    ensure(session, lanes=2)
    old = join(session, member(session))
    for lanes in (4, 2):
        ensure(session, lanes=lanes)
    new = join(session, member(session))
    assert [share.lane for share in new] != []
    touch(session, "a")
    tick(session)
    for share in old:
        with refused("TL423"):
            ack(session, share, live_up_to=head(session))


def test_whoever_worked_other_lanes_cannot_acknowledge_once_the_new_ones_have_an_owner(
    session: Session,
) -> None:
    ensure(session, lanes=2)
    worker = member(session)
    old = join(session, worker)
    touch(session, "a", shard=1)
    tick(session)
    ensure(session, lanes=1)
    (new,) = join(session, worker)
    assert new.epoch > max(share.epoch for share in old)
    with refused("TL423"):
        ack(session, old[0], live_up_to=head(session))
    assert undelivered(session, [new]) == ["a"]


def test_whoever_worked_a_dropped_tube_cannot_acknowledge_in_one_of_its_name(
    session: Session,
) -> None:
    (old,) = join(session, member(session))
    call(session, "tube_drop", tube=TUBE)
    ensure(session)
    touch(session, "a")
    tick(session)
    (new,) = join(session, member(session))
    with refused("TL423"):
        ack(session, old, live_up_to=head(session))
    assert undelivered(session, [new]) == ["a"]


def test_joining_while_the_lanes_are_changed_gives_no_lane_of_before(
    two_sessions: TwoSessions,
) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    ensure(watcher, lanes=2)
    join(watcher, member(watcher))
    watcher.execute("update trunkline.lease set expires = clock_timestamp()")
    ensure(a, lanes=3)
    heir, take = member(watcher), "select lane, lanes from trunkline.tube_join('feed', %s)"
    assert b.execute(take, [heir]).fetchall() == []
    b.commit()
    a.commit()
    assert b.execute(take, [heir]).fetchall() == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize("numbered", [True, False])
def test_a_control_entry_for_every_lane_reaches_the_lanes_that_come_later(
    session: Session, numbered: bool
) -> None:
    """Computed shards: documents of any shard have to be checked after the truncate."""
    ensure(session, lanes=2)
    attach(session, shard="region")
    start = head(session)
    session.execute("truncate orders")
    if numbered:
        tick(session)
    ensure(session, lanes=4)
    tick(session)
    for lane in range(4):
        seen = read(session, lane=lane, from_position=start + 1)
        assert {entry.control for entry in seen} == {"truncate"}, lane
    shares = join(session, member(session))
    for share in shares:
        ack(session, share, live_up_to=head(session), backfill_up_to=head(session))
    ensure(session, lanes=5)
    assert tick(session) == 0


def test_a_truncate_and_a_change_of_lanes_wait_for_each_other(two_sessions: TwoSessions) -> None:
    a, b, watcher = two_sessions.a, two_sessions.b, two_sessions.watcher
    watcher.execute("create table orders (id int primary key)")
    ensure(watcher)
    attach(watcher, shard="id")
    a.execute("truncate orders")
    changing = two_sessions.later(b, "select trunkline.tube_ensure('feed', 3)")
    two_sessions.blocked_by(a, b)
    a.commit()
    changing.result(10)
    b.commit()
    tick(watcher)
    for lane in range(3):
        assert {entry.control for entry in read(watcher, lane=lane)} == {"truncate"}


# Parking


def test_a_parked_key_is_listed_counted_and_tried_again(session: Session, feed: Reader) -> None:
    ensure(session, lanes=2)
    shares = join(session, member(session))
    attachment = ask(
        session, "select attachment from trunkline.tube_table where detached_at is null"
    )
    place = {"tube": TUBE, "lane": 1, "epoch": shares[1].epoch, "attachment": attachment}
    for key, error in (("1", "first"), ("2", "x" * 5000), ("1", "again")):
        call(session, "tube_park", **place, shard=3, key=key, attempts=8, error=error)
    by_hand = place | {"lane": 0, "epoch": shares[0].epoch, "attachment": 0}
    call(session, "tube_park", **by_hand, shard=0, key="h", attempts=1, error="no")
    rows = [row[1:6] for row in call(session, "tube_parked", tube=TUBE)]
    assert sorted(rows, key=str) == [
        ("orders", 3, "1", 16, "again"),
        ("orders", 3, "2", 8, "x" * 2000),
        (None, 0, "h", 1, "no"),
    ]
    assert [row[11] for row in call(session, "tube_stats", tube=TUBE)] == [1, 2]
    assert call(session, "tube_unpark", tube=TUBE, keys=["2", "h", "unknown"]) == [(2,)]
    assert sorted((e.relation or "", e.shard, e.keys) for e in feed.new()) == [
        ("", 0, ["h"]),
        ("orders", 3, ["2"]),
    ]
    assert call(session, "tube_unpark", tube=TUBE) == [(1,)]
    assert call(session, "tube_parked", tube=TUBE) == []
    assert feed.keys() == ["1"]


def test_only_the_owner_of_the_lane_parks(session: Session) -> None:
    (share,) = join(session, member(session))
    ensure(session, lanes=2)
    arguments = {"attachment": 0, "shard": 0, "key": "k", "attempts": 1, "error": "e"}
    with refused("TL423"):
        call(session, "tube_park", tube=TUBE, lane=0, epoch=share.epoch, **arguments)
    assert call(session, "tube_parked") == []


# The ring


@pytest.fixture
def ring(dsn: str) -> Iterator[Session]:
    """A database of its own whose ring has three slots, which are emptied at once."""
    with connections(dsn) as open_one:
        session = open_one()
        for name, value in (("ring.tube_entry.slots", "3"), ("maintain.settle", "0")):
            session.execute("select trunkline.config_set(%s, %s)", [name, value])
        ensure(session)
        yield session


def turn(session: Session, hours: int) -> None:
    """Let time pass: the ring moves on if it may, and empties what it may."""
    later = f"clock_timestamp() + interval '{hours} hours'"
    session.execute(f"select trunkline._ring_rotate('tube_entry', {later})")
    while ask(session, f"select trunkline._ring_clear('tube_entry', {later})"):
        pass


def stored(session: Session) -> list[str]:
    return column(session, "select unnest(keys) from trunkline.tube_entry order by seq")


def test_entries_leave_when_they_were_acknowledged_and_not_before(ring: Session) -> None:
    (share,) = join(ring, member(ring))
    for number in range(6):
        touch(ring, str(number))
        touch(ring, f"b{number}", op="B")
        tick(ring)
        turn(ring, number + 1)
    every = [key for number in range(6) for key in (str(number), f"b{number}")]
    assert stored(ring) == every
    assert ask(ring, "select held_by from trunkline.ring where ring = 'tube_entry'") is not None
    ack(ring, share, live_up_to=head(ring))
    turn(ring, 10)
    assert stored(ring) == every  # the backfill entries are not done
    ack(ring, share, backfill_up_to=2)
    turn(ring, 11)
    assert stored(ring) == every[2:]
    ack(ring, share, backfill_up_to=head(ring))
    turn(ring, 12)
    touch(ring, "last")
    turn(ring, 13)
    assert stored(ring) == ["last"]


def test_what_is_not_numbered_stays_in_the_ring(ring: Session) -> None:
    touch(ring, "a")
    turn(ring, 1)
    turn(ring, 2)
    assert stored(ring) == ["a"]
    tick(ring)
    assert [entry.keys for entry in read(ring)] == [["a"]]


def test_reading_what_has_left_is_refused_and_never_skipped(ring: Session) -> None:
    (share,) = join(ring, member(ring))
    touch(ring, "a")
    tick(ring)
    ack(ring, share, live_up_to=1, backfill_up_to=1)
    assert [entry.keys for entry in read(ring)] == [["a"]]  # acknowledged, and still there
    turn(ring, 1)
    touch(ring, "b")
    tick(ring)
    with refused("TL410") as caught:
        read(ring, from_position=1)
    assert '"acknowledged": 1' in (caught.value.diag.message_detail or "")
    assert [entry.keys for entry in read(ring, from_position=2)] == [["b"]]


def test_lanes_for_which_nothing_came_do_not_hold_the_ring(ring: Session) -> None:
    ensure(ring, "idle", lanes=2)
    ensure(ring, "slow")
    ring.execute("select trunkline.config_set('tube.entry_keys', '1')")
    touch(ring, "waits", tube="slow")
    for _ in range(2):
        touch(ring, *map(str, range(1_100)))
        tick(ring)
    touch(ring, "late", tube="idle", shard=1)
    tick(ring)
    last = head(ring)
    (share,) = join(ring, member(ring))
    ack(ring, share, live_up_to=last, backfill_up_to=last)
    ring.execute("select trunkline.tube_cursors_advance()")
    assert positions(ring, "idle") == {0: (last, last), 1: (last - 1, last)}
    assert positions(ring, "slow") == {0: (0, last)}  # the entry at 1 is not done
    assert positions(ring) == {0: (last, last)}
    assert ask(ring, "select trunkline._tube_keep_from()") == 1
    with writing_nothing(ring):
        ring.execute("select trunkline.tube_cursors_advance()")
    (slow,) = join(ring, member(ring), "slow")
    ack(ring, slow, "slow", live_up_to=1)
    ring.execute("select trunkline.tube_cursors_advance()")
    assert ask(ring, "select trunkline._tube_keep_from()") == last
    turn(ring, 1)
    assert len(stored(ring)) == 2_202  # the slot holds an entry that is not done
    (other,) = [share for share in join(ring, member(ring), "idle") if share.lane == 1]
    ack(ring, other, "idle", live_up_to=last)
    turn(ring, 2)
    assert stored(ring) == []


def test_a_tube_that_nobody_works_keeps_its_entries_through_maintenance(ring: Session) -> None:
    for name in ("tube_entry", "tick", "cursor"):
        ring.execute(f"select trunkline.config_set('ring.{name}.rotate_every', '1 millisecond')")
    for number in range(20):
        touch(ring, str(number))
        tick(ring)
        ring.execute("call trunkline.maintain()")
    assert [entry.keys for entry in read(ring)] == [[str(number)] for number in range(20)]
