"""Streams when a table changes under them, rows cannot be read, and policies take long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.asking import ask
from tests.live.steps import app_role, contacts, watch
from tests.live.test_stream import _joined, brief, of_role, subscriptions, take, write

from trunkline import Forbidden, Invalid, NotFound, PositionTrimmed
from trunkline.broker.stream import Reset
from trunkline.core.errors import DatabaseError
from trunkline.live import lane
from trunkline.live.models import LiveBatch
from trunkline.testing import eventually

if TYPE_CHECKING:
    from tests.fixtures.asking import Session

    from trunkline.core.calls import Call
    from trunkline.platform import Platform

BY_NAME = (
    "alter table contacts enable row level security;"
    "create policy p on contacts using (name is distinct from 'secret')"
)


@pytest.fixture(autouse=True)
def table(session: Session) -> None:
    contacts(session)


async def test_a_row_that_was_hidden_stays_so_when_the_column_that_hid_it_gets_another_name(
    platform: Platform, session: Session
) -> None:
    session.execute(BY_NAME)
    with app_role(session, "usage on schema public", "select on contacts") as role:
        await platform.live.allow(role)
        async with of_role(platform, role, 7) as stream:
            token = stream.token
            write(session, "insert into contacts values (1, 7, 'a'), (2, 7, 'secret')")
            assert brief(await take(stream, 1)) == [("created", 1)]
        write(session, "alter table contacts rename name to called")
        async with of_role(platform, role, 7, after=token) as again:
            with pytest.raises(PositionTrimmed):
                await take(again, 1)


async def test_a_stream_is_reset_when_a_column_gets_another_name_and_goes_on(
    platform: Platform, session: Session
) -> None:
    async with platform.live.stream("contacts") as stream:
        items = stream.items()
        await anext(items)
        waiting = asyncio.ensure_future(anext(items))
        await eventually(lambda: _joined(platform, 1))
        (first,) = subscriptions(session)
        write(
            session,
            "alter table contacts rename name to called",
            "insert into contacts values (1, 7, 'a')",
        )
        assert isinstance(await waiting, Reset)
        waiting = asyncio.ensure_future(anext(items))
        await eventually(lambda: _anew(platform, session, first))
        write(session, "insert into contacts values (2, 7, 'b')")
        item = await waiting
        assert isinstance(item, LiveBatch)
        assert item.changes[0].row == {"id": 2, "org_id": 7, "called": "b", "tags": None}


async def _anew(platform: Platform, session: Session, former: int) -> None:
    present = subscriptions(session)
    assert len(present) == 1
    assert former not in present
    assert present[0] in platform.live._hub._members


async def test_a_stream_that_is_closed_while_it_subscribes_anew_leaves_nothing_and_disturbs_nobody(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, run = platform.live._hub, platform.db.run
    one, other = platform.live.stream("contacts"), platform.live.stream("contacts")
    async with other:
        (number,) = subscriptions(session)
        waiting = asyncio.create_task(take(other, 1))
        reading = asyncio.create_task(take(one, 1))
        await eventually(lambda: _joined(platform, 2))
        box = hub._members[number]

        async def closing(call: Call[Any], **given: Any) -> Any:
            answer = await run(call, **given)
            if call.function == "live_subscribe":
                await one.close()
            return answer

        monkeypatch.setattr(platform.db, "run", closing)
        assert one._mailbox is not None
        one._mailbox.close(renew=True)
        assert await reading == []
        assert subscriptions(session) == [number]
        write(session, "insert into contacts values (1, 7)")
        assert brief(await waiting) == [("created", 1)]
        assert not box.closed


async def test_a_stream_follows_its_table_to_another_name(
    platform: Platform, session: Session
) -> None:
    async with platform.live.stream("contacts") as stream:
        write(session, "alter table contacts rename to people", "insert into people values (1, 7)")
        assert brief(await take(stream, 1)) == [("created", 1)]
        watch(session, "people")
        platform.live._hub._members[subscriptions(session)[0]].close(renew=True)
        write(session, "insert into people values (2, 7)")
        assert brief(await take(stream, 1)) == [("created", 2)]


async def test_a_column_of_the_condition_that_may_be_selected_no_longer_ends_the_stream(
    platform: Platform, session: Session
) -> None:
    """Which rows come would tell what is in it."""
    with app_role(session, "usage on schema public", "select on contacts") as role:
        await platform.live.allow(role)
        session.execute(f"revoke select on contacts from {role}")
        session.execute(f"grant select (id, org_id, name) on contacts to {role}")
        async with (
            platform.live.stream("contacts", condition={"org_id": {"gt": 5}}, role=role) as by_org,
            platform.live.stream("contacts", columns=["org_id"], role=role) as asked,
            platform.live.stream("contacts", role=role) as other,
        ):
            reading = asyncio.gather(
                *(take(stream, 1) for stream in (by_org, asked, other)), return_exceptions=True
            )
            await eventually(lambda: _joined(platform, 3))
            session.execute(f"revoke select (org_id) on contacts from {role}")
            write(session, "insert into contacts values (1, 7, 'a')")
            refused_one, refused_two, told = await reading
    assert isinstance(refused_one, Forbidden)
    assert isinstance(refused_two, Forbidden)
    assert brief(told) == [("created", 1)]  # type: ignore[arg-type]


async def test_a_role_that_is_forbidden_is_told_no_more(
    platform: Platform, session: Session
) -> None:
    with app_role(session, "usage on schema public", "select on contacts") as role:
        await platform.live.allow(role)
        async with platform.live.stream("contacts", role=role) as stream:
            reading = asyncio.create_task(take(stream, 1))
            await eventually(lambda: _joined(platform, 1))
            assert await platform.live.forbid(role)
            with pytest.raises(NotFound):
                await reading


async def test_an_event_that_is_no_row_ends_only_the_streams_of_its_table(
    platform: Platform, session: Session
) -> None:
    """Its owner can write such a thing, and nobody else."""
    session.execute("create table others (id int primary key)")
    watch(session, "others")
    async with (
        platform.live.stream("contacts") as stream,
        platform.live.stream("others") as other,
    ):
        reading = asyncio.gather(take(stream, 1), take(other, 1), return_exceptions=True)
        await eventually(lambda: _joined(platform, 2))
        session.execute(
            "select trunkline._broker_capture('public.contacts.insert', '{}', '{1}',"
            " array['[\"boom\"]'::jsonb], watch => watch, pass => pass)"
            " from trunkline.broker_watch_pass join trunkline.broker_watched() using (watch)"
            " where relation = 'contacts'::regclass"
        )
        write(session, "insert into others values (1)")
        failed, told = await reading
    assert isinstance(failed, Invalid)
    assert brief(told) == [("created", 1)]  # type: ignore[arg-type]


@pytest.mark.parametrize("hopeless", [False, True])
async def test_what_is_too_much_for_one_read_is_read_in_smaller_parts_or_by_each_stream(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch, hopeless: bool
) -> None:
    async with platform.live.stream("contacts") as stream:
        token = stream.token
        reading = asyncio.create_task(take(stream, 20))
        await eventually(lambda: _joined(platform, 1))
        run = platform.db.run

        async def short(call: Call[Any], **given: Any) -> Any:
            asked = call.arguments
            if call.function == "live_read" and asked["max_events"] > (
                0 if hopeless and asked["process"] else 3
            ):
                raise DatabaseError("array size exceeds the maximum allowed", sqlstate="54000")
            return await run(call, **given)

        monkeypatch.setattr(platform.db, "run", short)
        write(session, "insert into contacts select n, 7 from generate_series(1, 20) n")
        expected = [("created", n) for n in range(1, 21)]
        assert brief(await reading) == expected
    async with platform.live.stream("contacts", after=token) as again:
        assert brief(await take(again, 20)) == expected


async def test_who_joins_while_a_failed_read_is_waited_out_is_not_refused_for_it(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, run = platform.live._hub, platform.db.run
    paused, goes_on = asyncio.Event(), asyncio.Event()

    async def failing(call: Call[Any], **given: Any) -> Any:
        if call.function == "live_read" and call.arguments["process"]:
            raise DatabaseError("out of memory", sqlstate="53200")
        return await run(call, **given)

    async def pause(_error: Exception, _wait: float) -> None:
        monkeypatch.setattr(platform.db, "run", run)
        paused.set()
        await goes_on.wait()

    monkeypatch.setattr(platform.db, "run", failing)
    monkeypatch.setattr(hub, "_pause", pause)
    async with platform.live.stream("contacts") as one, platform.live.stream("contacts") as other:
        reading = asyncio.gather(take(one, 1), anext(items := other.items()))
        await paused.wait()
        later = asyncio.gather(reading, anext(items))
        await eventually(lambda: len(hub._joining) == 1)
        goes_on.set()
        await eventually(lambda: _joined(platform, 2))
        write(session, "insert into contacts values (1, 7)")
        (told, _), item = await later
    assert brief(told) == [("created", 1)]
    assert isinstance(item, LiveBatch)


async def test_many_visitors_are_judged_with_one_call_each_by_its_own_settings(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.execute(
        "alter table contacts enable row level security;"
        "create policy p on contacts using (org_id <= current_setting('app.org_id')::int)"
    )
    judge = platform.live._hub.judge
    visible, asked = judge._visible, list[int]()

    async def counted(relation: str, role: str, groups: Any) -> Any:
        asked.append(len(groups))
        return await visible(relation, role, groups)

    monkeypatch.setattr(judge, "_visible", counted)
    with app_role(session, "usage on schema public", "select on contacts") as role:
        await platform.live.allow(role)
        streams = [
            platform.live.stream("contacts", role=role, settings={"app.org_id": str(org)})
            for org in range(1, 13)
        ]
        reading = [asyncio.create_task(take(stream, 1)) for stream in streams]
        await eventually(lambda: _joined(platform, 12))
        write(session, "insert into contacts select n, n from generate_series(1, 12) n")
        told = await asyncio.gather(*reading)
    assert [len(each) for each in told] == list(range(1, 13))
    assert asked == [12]
    for stream in streams:
        await stream.close()


async def test_a_policy_of_one_table_that_takes_long_delays_no_other_table(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane, "MOST_WAITING", 100)
    session.execute(
        "create table others (id int primary key);"
        "alter table contacts enable row level security;"
        "create policy p on contacts using (pg_sleep(0.15) is not null)"
    )
    watch(session, "others")
    with app_role(session, "usage on schema public", "select on contacts, others") as role:
        await platform.live.allow(role)
        async with (
            platform.live.stream("contacts", role=role) as slow,
            platform.live.stream("others") as quick,
        ):
            waiting = asyncio.create_task(take(slow, 4))
            reading = asyncio.create_task(take(quick, 4))
            await eventually(lambda: _joined(platform, 2))
            for number in range(4):  # more than may wait: the slow one reads by itself then
                write(
                    session,
                    f"insert into contacts values ({number}, 7)",
                    f"insert into others values ({number})",
                )
            assert brief(await reading) == [("created", n) for n in range(4)]
            assert not waiting.done()
            assert platform.live._hub.place(ask(session, "select 'contacts'::regclass::oid"))
            assert brief(await waiting) == [("created", n) for n in range(4)]


async def test_what_was_under_way_when_history_was_lost_is_told_to_nobody_after_the_reset(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge, held, asked = platform.live._hub.judge, asyncio.Event(), asyncio.Event()
    tell = judge.tell

    async def later(*given: Any, **named: Any) -> Any:
        asked.set()
        await held.wait()
        return await tell(*given, **named)

    async with platform.live.stream("contacts") as stream:
        items = stream.items()
        await anext(items)
        waiting = asyncio.ensure_future(anext(items))
        await eventually(lambda: _joined(platform, 1))
        monkeypatch.setattr(judge, "tell", later)
        write(session, "insert into contacts values (1, 7)")
        await asked.wait()
        session.execute("update trunkline.incarnation set timeline = timeline + 1")
        session.execute("select trunkline.incarnation()")
        write(session, "insert into contacts values (2, 7)")
        assert isinstance(await waiting, Reset)
        held.set()
        write(session, "insert into contacts values (3, 7)")
        item = await anext(items)
        assert isinstance(item, LiveBatch)
        assert ("created", 1) not in brief(list(item.changes))


@pytest.mark.parametrize("asked", ["live_access", "live_visible_many"])
async def test_rows_are_not_judged_by_names_that_columns_got_after_they_were_read(
    platform: Platform, session: Session, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Two columns trade their names: what hid a row would show it."""
    session.execute(
        "alter table contacts enable row level security;"
        "alter table contacts add column other text;"
        "create policy p on contacts using (name = 'open')"
    )
    trade = (
        "alter table contacts rename name to former; alter table contacts rename other to name;"
        " alter table contacts rename former to other; select trunkline._live_note('contacts')"
    )
    run = platform.db.run

    async def traded(call: Call[Any], **given: Any) -> Any:
        if call.function == asked:
            monkeypatch.setattr(platform.db, "run", run)
            session.execute(trade)
        return await run(call, **given)

    with app_role(session, "usage on schema public", "select on contacts") as role:
        await platform.live.allow(role)
        async with platform.live.stream("contacts", role=role) as stream:
            items = stream.items()
            await anext(items)
            waiting = asyncio.ensure_future(anext(items))
            await eventually(lambda: _joined(platform, 1))
            monkeypatch.setattr(platform.db, "run", traded)
            write(session, "insert into contacts values (1, 7, 'secret', null, 'open')")
            item = await waiting
            assert isinstance(item, Reset)


async def test_an_error_of_a_condition_tells_nothing_of_a_row_that_is_hidden(
    platform: Platform, session: Session
) -> None:
    session.execute(
        "alter table contacts enable row level security;"
        "create policy p on contacts using (org_id = 7)"
    )
    with app_role(session, "usage on schema public", "select on contacts") as role:
        await platform.live.allow(role)
        async with platform.live.stream("contacts", role=role) as stream:
            token = stream.token
        write(
            session,
            "insert into contacts values (1, 8, 'secret')",
            "delete from contacts",
            "alter table contacts alter name type numeric using name::numeric",
        )
        condition = {"name": {"gt": 5}}
        async with platform.live.stream(
            "contacts", condition=condition, role=role, after=token
        ) as again:
            with pytest.raises(Invalid) as refused:
                await take(again, 1)
        assert "secret" not in str(refused.value)
