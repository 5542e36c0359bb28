"""Streams of live tables: what is told, to whom, and how they go on."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from tests.broker.steps import tick
from tests.broker.test_reading import age, rotate
from tests.fixtures.asking import ask, call, column
from tests.live.steps import app_role, contacts, watch

from trunkline import Forbidden, Invalid, NotFound, PositionTrimmed, connect
from trunkline.broker.stream import Heartbeat, Place, Reset
from trunkline.live import hub, mailbox
from trunkline.live.models import Change, LiveBatch, LiveChange
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.fixtures.asking import Session
    from tests.fixtures.proxy import Proxy

    from trunkline.live.stream import LiveStream
    from trunkline.platform import Platform


@pytest.fixture(autouse=True)
def table(session: Session) -> None:
    contacts(session)


async def take(stream: LiveStream, number: int) -> list[LiveChange]:
    """The next changes."""
    seen: list[LiveChange] = []
    async with asyncio.timeout(15):
        async for batch in stream:
            seen += batch.changes
            if len(seen) >= number:
                break
    return seen


def brief(changes: list[LiveChange]) -> list[tuple[str, Any]]:
    return [(change.change.value, (change.key or {}).get("id")) for change in changes]


def write(session: Session, *statements: str) -> None:
    for statement in statements:
        session.execute(statement)
    tick(session)


def subscriptions(session: Session) -> list[int]:
    return column(session, "select subscription from trunkline.live_subscriptions()")


async def test_a_stream_tells_what_became_of_rows_as_seen_through_its_condition(
    platform: Platform, session: Session
) -> None:
    async with platform.live.stream("contacts", condition={"org_id": 7}) as stream:
        write(
            session,
            "insert into contacts values (1, 7, 'a', '{x}'), (2, 8, 'b', null)",
            "update contacts set name = 'A', tags = null where id = 1",
            "update contacts set org_id = 9 where id = 1",
            "update contacts set org_id = 7 where id = 2",
            "delete from contacts where id = 2",
            "truncate contacts",
        )
        created, updated, left, entered, deleted, truncated = await take(stream, 6)

    assert (created.change, created.key) == (Change.CREATED, {"id": 1})
    assert created.row == {"id": 1, "org_id": 7, "name": "a", "tags": ["x"]}
    assert (updated.change, updated.patch) == (Change.UPDATED, {"name": "A", "tags": None})
    assert updated.row == {"id": 1, "org_id": 7, "name": "A", "tags": None}
    assert (left.change, left.key, left.row, left.patch) == (Change.LEFT, {"id": 1}, None, None)
    assert (entered.change, entered.patch) == (Change.ENTERED, {"org_id": 7})
    assert (deleted.change, deleted.row) == (
        Change.DELETED,
        {"id": 2, "org_id": 7, "name": "b", "tags": None},
    )
    assert (truncated.change, truncated.key) == (Change.TRUNCATED, None)


async def test_numbers_keep_every_digit(platform: Platform, session: Session) -> None:
    session.execute("create table n (id bigint primary key, x numeric, j jsonb)")
    watch(session, "n")
    async with platform.live.stream("n") as stream:
        digits = "1" * 5_000
        write(
            session,
            "insert into n values (9007199254740993, 1.10, '[0.1]')",
            f"insert into n values (1, {digits})",
        )
        first, second = await take(stream, 2)
    assert first.row == {"id": 9007199254740993, "x": Decimal("1.10"), "j": [Decimal("0.1")]}
    assert second.row is not None
    assert str(second.row["x"]) == digits


async def test_an_update_is_told_only_when_a_chosen_column_changed(
    platform: Platform, session: Session
) -> None:
    write(session, "insert into contacts values (1, 7, 'a')")
    async with platform.live.stream("contacts", columns=["name"]) as stream:
        write(
            session,
            "update contacts set org_id = 8",
            "update contacts set name = 'b'",
            "update contacts set name = name",
        )
        write(session, "delete from contacts")
        assert brief(await take(stream, 2)) == [("updated", 1), ("deleted", 1)]


async def test_true_is_not_the_same_as_1_in_a_patch(platform: Platform, session: Session) -> None:
    session.execute("create table docs (id int primary key, j jsonb)")
    watch(session, "docs")
    write(session, """insert into docs values (1, '{"a": [1]}')""")
    async with platform.live.stream("docs") as stream:
        write(session, """update docs set j = '{"a": [true]}'""")
        assert (await take(stream, 1))[0].patch == {"j": {"a": [True]}}


async def test_a_change_of_the_key_is_a_row_that_goes_and_one_that_comes(
    platform: Platform, session: Session
) -> None:
    write(session, "insert into contacts values (1, 7)")
    async with platform.live.stream("contacts") as stream:
        write(session, "update contacts set id = 2")
        assert brief(await take(stream, 2)) == [("deleted", 1), ("created", 2)]


async def test_streams_of_one_process_are_told_apart(platform: Platform, session: Session) -> None:
    async with (
        platform.live.stream("contacts", condition={"org_id": 7}) as seven,
        platform.live.stream("contacts", condition={"org_id": 8}) as eight,
        platform.live.stream("contacts", changes=["deleted"]) as gone,
    ):
        reading = asyncio.gather(take(seven, 1), take(eight, 1), take(gone, 2))
        write(session, "insert into contacts values (1, 7), (2, 8)", "delete from contacts")
        told = await reading
    assert [brief(each)[:1] for each in told] == [
        [("created", 1)],
        [("created", 2)],
        [("deleted", 1)],
    ]


async def test_a_hundred_streams_cost_one_read_for_each_tick(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = [platform.live.stream("contacts", condition={"org_id": n}) for n in range(100)]
    for stream in streams:
        await stream.open()
    reading = [asyncio.create_task(take(stream, 1)) for stream in streams]
    await eventually(lambda: _joined(platform, 100))
    seen: list[int] = []
    monkeypatch.setattr(platform.live._hub.read, "send", seen.append)
    write(session, "insert into contacts select n, n from generate_series(0, 99) n")
    told = await asyncio.gather(*reading)
    assert [brief(each) for each in told] == [[("created", n)] for n in range(100)]
    assert len([rows for rows in seen if rows]) == 1
    for stream in streams:
        await stream.close()
    assert subscriptions(session) == []


async def _joined(platform: Platform, number: int) -> None:
    assert len(platform.live._hub._members) == number


async def test_a_stream_goes_on_after_a_token_on_any_node(
    platform: Platform, session: Session, clean_dsn: str
) -> None:
    async with platform.live.stream("contacts") as stream:
        token = stream.token
    write(session, "insert into contacts values (1, 7)", "insert into contacts values (2, 7)")
    async with (
        connect(clean_dsn) as elsewhere,
        elsewhere.live.stream("contacts", after=token) as again,
    ):
        assert brief(await take(again, 2)) == [("created", 1), ("created", 2)]
        write(session, "delete from contacts where id = 1")
        assert brief(await take(again, 1)) == [("deleted", 1)]


async def test_a_stream_goes_on_after_the_token_of_any_change(
    platform: Platform, session: Session
) -> None:
    async with platform.live.stream("contacts") as stream:
        write(session, "insert into contacts select n, 7 from generate_series(1, 5) n")
        changes = await take(stream, 5)
    async with platform.live.stream("contacts", after=changes[2].token) as again:
        assert brief(await take(again, 2)) == [("created", 4), ("created", 5)]


async def test_a_stream_that_comes_from_a_quicker_node_is_told_nothing_twice(
    platform: Platform, session: Session, clean_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connect(clean_dsn) as slow, slow.live.stream("contacts") as first:
        following = asyncio.create_task(take(first, 3))
        await eventually(lambda: _joined(slow, 1))
        await slow.live._hub.read.wait()
        monkeypatch.setattr(slow.listener, "wake", lambda _key: None)  # wake-ups come late
        monkeypatch.setattr(hub, "LOOK_EVERY", 60)
        await slow.live._hub.read.wait()
        async with platform.live.stream("contacts") as quick:
            write(
                session, "insert into contacts values (1, 7)", "insert into contacts values (2, 7)"
            )
            changes = await take(quick, 2)
        async with slow.live.stream("contacts", after=changes[0].token) as again:
            assert brief(await take(again, 1)) == [("created", 2)]
        async with slow.live.stream("contacts", after=changes[1].token) as again:
            write(session, "insert into contacts values (3, 7)")
            slow.live._hub._woken.set()
            assert brief(await take(again, 1)) == [("created", 3)]
        assert [number for _, number in brief(await following)] == [1, 2, 3]


async def test_a_stream_that_is_cut_at_random_misses_nothing_and_repeats_nothing(
    platform: Platform, session: Session
) -> None:
    chance = random.Random(7)
    async with platform.live.stream("contacts") as stream:
        token = stream.token
    seen: list[Any] = []
    for round_ in range(12):
        first = round_ * 40
        half = first + chance.randrange(40)
        write(session, f"insert into contacts select n, 7 from generate_series({first}, {half}) n")
        async with platform.live.stream("contacts", after=token) as stream:
            wanted = chance.randrange(1, 40)
            writing = asyncio.create_task(
                asyncio.to_thread(
                    write,
                    session,
                    f"insert into contacts select n, 7 from generate_series({half + 1},"
                    f" {first + 39}) n",
                )
            )
            async for item in stream.items():
                token = item.token
                if isinstance(item, LiveBatch):
                    seen += [change.key["id"] for change in item.changes if change.key]
                if len(seen) >= first + wanted:
                    break
            await writing
    async with platform.live.stream("contacts", after=token) as stream:
        write(session, "insert into contacts values (10000, 7)")
        while 10000 not in seen:
            seen += [change.key["id"] for change in await take(stream, 1) if change.key]
    assert seen == [*range(480), 10000]


async def test_a_slow_reader_falls_behind_costs_no_memory_and_misses_nothing(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "MOST", 100)
    monkeypatch.setattr(hub, "MOST_EVENTS", 50)
    platform.live._hub._most = 50
    async with (
        platform.live.stream("contacts") as slow,
        platform.live.stream("contacts") as quick,
    ):
        write(session, "insert into contacts values (0, 7)")
        items = slow.items()
        while not isinstance(await anext(items), LiveBatch):
            pass
        box = slow._mailbox
        assert box is not None
        reading = asyncio.create_task(take(quick, 1001))
        write(session, "insert into contacts select n, 7 from generate_series(1, 1000) n")
        assert [key for _, key in brief(await reading)] == list(range(1001))
        assert box.closed
        assert box._waiting <= 100
        seen: list[Any] = []
        async with asyncio.timeout(15):
            async for item in items:
                if isinstance(item, LiveBatch):
                    seen += [change.key["id"] for change in item.changes if change.key]
                if len(seen) >= 1000:
                    break
        assert seen == list(range(1, 1001))
        write(session, "delete from contacts where id = 5")
        assert brief(await take(slow, 1)) == [("deleted", 5)]


async def test_what_is_written_while_a_stream_joins_comes_once(
    platform: Platform, session: Session
) -> None:
    """Streams join while others are told all the time."""
    stop = asyncio.Event()

    async def keep_writing() -> int:
        number = 0
        while not stop.is_set():
            number += 1
            await asyncio.to_thread(write, session, f"insert into contacts values ({number}, 7)")
        return number

    async def follow() -> list[Any]:
        async with platform.live.stream("contacts") as stream:
            return [change.key["id"] for change in await take(stream, 30) if change.key]

    writing = asyncio.create_task(keep_writing())
    told = await asyncio.gather(*(follow() for _ in range(12)))
    stop.set()
    await writing
    for keys in told:
        assert keys == list(range(keys[0], keys[0] + len(keys)))


async def test_a_process_whose_lease_ran_out_subscribes_anew_and_misses_nothing(
    platform: Platform, session: Session
) -> None:
    async with platform.live.stream("contacts") as stream:
        items = stream.items()
        await anext(items)
        coming = asyncio.create_task(anext(items))
        await eventually(lambda: _joined(platform, 1))
        session.execute("update trunkline.lease set expires = now() - interval '1 minute'")
        session.execute("insert into contacts values (1, 7)")
        session.execute("call trunkline.maintain()")
        assert subscriptions(session) == []
        tick(session)
        async with asyncio.timeout(15):
            item = await coming
        assert isinstance(item, LiveBatch)
        assert brief(list(item.changes)) == [("created", 1)]
        assert len(subscriptions(session)) == 1


async def test_a_stream_ends_when_somebody_ends_its_subscription(
    platform: Platform, session: Session
) -> None:
    async with (
        platform.live.stream("contacts") as stream,
        platform.live.stream("contacts") as other,
    ):
        reading = asyncio.create_task(take(stream, 1))
        going_on = asyncio.create_task(take(other, 1))
        await eventually(lambda: _joined(platform, 2))
        number = min(subscriptions(session))
        assert ask(session, "select trunkline.live_unsubscribe(%s)", [number])
        with pytest.raises(NotFound):
            await reading
        write(session, "insert into contacts values (1, 7)")
        assert brief(await going_on) == [("created", 1)]


async def test_a_stream_ends_when_its_table_is_live_no_longer(
    platform: Platform, session: Session
) -> None:
    async with platform.live.stream("contacts") as stream:
        reading = asyncio.create_task(take(stream, 1))
        await eventually(lambda: _joined(platform, 1))
        await platform.live.unwatch("contacts")
        with pytest.raises(NotFound):
            await reading


async def test_a_stream_without_changes_tells_how_far_it_looked(
    platform: Platform, session: Session
) -> None:
    async with platform.live.stream("contacts", condition={"org_id": 1}, heartbeat=0.05) as stream:
        write(session, "insert into contacts values (1, 7)")
        end = Place(ask(session, "select trunkline.incarnation()"), 1).token
        async with asyncio.timeout(10):
            async for item in stream.items():
                assert isinstance(item, Heartbeat)
                if item.token == end:
                    break
        assert stream.token == end


async def test_a_stream_whose_history_is_gone_says_so(platform: Platform, session: Session) -> None:
    async with platform.live.stream("contacts") as stream:
        token = stream.token
    write(session, "insert into contacts values (1, 7)")
    call(session, "broker_match")
    age(session, timedelta(hours=5))
    rotate(session)
    write(session, "insert into contacts values (2, 7)")
    with pytest.raises(PositionTrimmed, match="left"):
        async with platform.live.stream("contacts", after=token):
            pass
    assert subscriptions(session) == []


async def test_a_stream_that_is_open_while_its_history_goes_is_reset(
    platform: Platform, session: Session
) -> None:
    async with platform.live.stream("contacts") as stream:
        write(session, "insert into contacts values (1, 7)")
        call(session, "broker_match")
        age(session, timedelta(hours=5))
        rotate(session)
        write(session, "insert into contacts values (2, 7)")
        items = stream.items()
        while isinstance(item := await anext(items), Heartbeat):
            pass
        assert isinstance(item, Reset)
        write(session, "insert into contacts values (3, 7)")
        item = await anext(items)
        assert isinstance(item, LiveBatch)
        assert brief(list(item.changes))[-1] == ("created", 3)


async def test_a_stream_goes_on_when_all_backends_are_ended(
    platform: Platform, session: Session
) -> None:
    async with platform.live.stream("contacts") as stream:
        reading = asyncio.create_task(take(stream, 2))
        await eventually(lambda: _joined(platform, 1))
        write(session, "insert into contacts values (1, 7)")
        session.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        write(session, "insert into contacts values (2, 7)")
        assert brief(await reading) == [("created", 1), ("created", 2)]


async def test_a_stream_over_a_network_that_breaks_goes_on(
    session: Session, clean_dsn: str, proxy: Callable[[str], Proxy]
) -> None:
    between = proxy(clean_dsn)
    async with connect(between.dsn) as platform, platform.live.stream("contacts") as stream:
        reading = asyncio.create_task(take(stream, 2))
        await eventually(lambda: _joined(platform, 1))
        between.refuse()
        write(session, "insert into contacts values (1, 7)", "delete from contacts")
        between.resume()
        assert brief(await reading) == [("created", 1), ("deleted", 1)]


@asynccontextmanager
async def of_role(
    platform: Platform, role: str, org: int, **given: Any
) -> AsyncIterator[LiveStream]:
    settings = {"app.org_id": str(org)}
    async with platform.live.stream("contacts", role=role, settings=settings, **given) as stream:
        yield stream


async def test_policies_decide_row_by_row_before_and_after_and_for_deletes(
    platform: Platform, session: Session
) -> None:
    session.execute(
        "alter table contacts enable row level security;"
        "create policy by_org on contacts using (org_id = current_setting('app.org_id')::int)"
    )
    with app_role(session, "usage on schema public", "select on contacts") as role:
        await platform.live.allow(role)
        async with of_role(platform, role, 7) as seven, of_role(platform, role, 8) as eight:
            reading = asyncio.gather(take(seven, 5), take(eight, 2))
            write(
                session,
                "insert into contacts values (1, 7, 'a')",
                "update contacts set name = 'b'",
                "update contacts set org_id = 8",
                "update contacts set org_id = 9",
                "update contacts set org_id = 7",
                "delete from contacts",
            )
            told = await reading
    assert [change for change, _ in brief(told[0])] == [
        "created",
        "updated",
        "left",
        "entered",
        "deleted",
    ]
    assert [change for change, _ in brief(told[1])] == ["entered", "left"]
    assert told[0][2].row is None


async def test_only_columns_that_the_role_may_select_are_told(
    platform: Platform, session: Session
) -> None:
    with app_role(session, "usage on schema public", "select (id, name) on contacts") as role:
        await platform.live.allow(role)
        async with platform.live.stream("contacts", role=role) as stream:
            write(
                session,
                "insert into contacts values (1, 7, 'a')",
                "update contacts set org_id = 8",
                "update contacts set org_id = 9, name = 'b'",
            )
            created, updated = await take(stream, 2)
            assert created.row == {"id": 1, "name": "a"}
            assert updated.patch == {"name": "b"}


async def test_a_right_that_is_taken_away_ends_the_stream(
    platform: Platform, session: Session
) -> None:
    with app_role(session, "usage on schema public", "select on contacts") as role:
        await platform.live.allow(role)
        async with (
            platform.live.stream("contacts", role=role) as stream,
            platform.live.stream("contacts") as other,
        ):
            reading = asyncio.gather(take(stream, 1), take(other, 1), return_exceptions=True)
            await eventually(lambda: _joined(platform, 2))
            session.execute(f"revoke select on contacts from {role}")
            write(session, "insert into contacts values (1, 7)")
            refused, told = await reading
            assert isinstance(refused, Forbidden)
            assert brief(told) == [("created", 1)]  # type: ignore[arg-type]


async def test_a_policy_that_fails_or_takes_too_long_ends_only_its_own_streams(
    platform: Platform, session: Session
) -> None:
    call(session, "config_set", name="live.judge_timeout", value="200 milliseconds")
    session.execute(
        "alter table contacts enable row level security;"
        "create policy p on contacts using (case current_setting('app.org_id')"
        " when '0' then 1 / (org_id - 7) > 0"
        " when '1' then pg_sleep(30) is not null else true end)"
    )
    with app_role(session, "usage on schema public", "select on contacts") as role:
        await platform.live.allow(role)
        async with (
            of_role(platform, role, 0) as failing,
            of_role(platform, role, 1) as sleeping,
            of_role(platform, role, 2) as well,
        ):
            reading = asyncio.gather(
                *(take(stream, 1) for stream in (failing, sleeping, well)), return_exceptions=True
            )
            await eventually(lambda: _joined(platform, 3))
            write(session, "insert into contacts values (1, 7)")
            errors = await reading
    assert "a policy of the table fails for a row" in str(errors[0])
    assert "takes too long for a row" in str(errors[1])
    assert brief(errors[2]) == [("created", 1)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"relation": "nowhere"}, NotFound),
        ({"relation": "pg_class"}, NotFound),
        ({"relation": "no such; name"}, NotFound),
        ({"condition": {"nothing": 1}}, Invalid),
        ({"changes": ["moved"]}, Invalid),
        ({"changes": []}, Invalid),
        ({"columns": ["nothing"]}, Invalid),
        ({"columns": []}, Invalid),
        ({"after": "rubbish"}, Invalid),
        ({"role": "no_such_role"}, Forbidden),
        ({"heartbeat": 0}, Invalid),
        ({"condition": "org_id = 7"}, Invalid),
        ({"settings": {"work_mem": "1GB"}}, Invalid),
    ],
    ids=str,
)
async def test_bad_input_is_refused_by_name_and_leaves_no_subscription(
    platform: Platform, session: Session, given: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        async with platform.live.stream(**{"relation": "contacts", **given}):
            pass
    assert subscriptions(session) == []


async def test_the_end_of_the_connection_ends_streams_and_subscriptions(
    session: Session, clean_dsn: str
) -> None:
    async with connect(clean_dsn) as platform:
        streams = [platform.live.stream("contacts") for _ in range(3)]
        for stream in streams:
            await stream.open()
        reading = [asyncio.create_task(take(stream, 1)) for stream in streams]
        await eventually(lambda: _joined(platform, 3))
    for told in await asyncio.gather(*reading, return_exceptions=True):
        assert told == [] or isinstance(told, Exception)
    assert subscriptions(session) == []


async def test_an_idle_stream_writes_nothing(platform: Platform, session: Session) -> None:
    async with platform.live.stream("contacts", heartbeat=0.1) as stream:
        items = stream.items()
        await anext(items)
        await anext(items)
        await platform._lease.renew()
        before = int(ask(session, "select pg_snapshot_xmax(pg_current_snapshot())::text"))
        for _ in range(10):
            assert isinstance(await anext(items), Heartbeat)
        for table in column(
            session,
            "select oid::regclass::text from pg_class where relkind = 'r'"
            " and relnamespace = 'trunkline'::regnamespace",
        ):
            written = f"select ctid from {table} where xmin::text::bigint >= {before}"
            assert column(session, written) == [], table
