"""Apps at work: handlers get their events once, in order, and harm nobody when they fail."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from pydantic import BaseModel, field_validator
from tests.broker.groups import match
from tests.fixtures.asking import ask, column
from tests.fixtures.postgres import new_database, take_over

import trunkline
from trunkline.broker.delivered import Delivered
from trunkline.broker.models import Event, NewEvent
from trunkline.broker.worker import HandlerWorker
from trunkline.core import migrate
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from tests.fixtures.asking import Session
    from tests.fixtures.postgres import AnyServer

    MakeApp = Callable[..., trunkline.App]

POSITION = (
    "select max((trunkline._cursor_latest(k.cursor_id)).up_to) from trunkline.cursor_key k"
    " where k.resource like 'broker:%%:' || %s"
)
HANDLERS = "select handler from trunkline.broker_handler"


class Order(BaseModel):
    number: int


@pytest.fixture
def make(clean_dsn: str) -> MakeApp:
    """Make an app on the database: ``make(read_ahead=3)``."""
    return lambda **settings: trunkline.App(clean_dsn, **settings)


@pytest.fixture
def app(make: MakeApp) -> trunkline.App:
    return make()


@asynccontextmanager
async def running(*apps: trunkline.App, services: bool = True) -> AsyncIterator[trunkline.App]:
    """Run apps, of which all handlers are registered, inside the block."""
    stop = asyncio.Event()
    async with AsyncExitStack() as opened:
        for app in apps:
            await opened.enter_async_context(app)
            await app.register()
        tasks = [asyncio.create_task(app.run(stop, services=services)) for app in apps]
        try:
            yield apps[0]
        finally:
            stop.set()
            await asyncio.wait_for(asyncio.gather(*tasks), 30)


async def publish(app: trunkline.App, *payloads: Any, topic: str = "orders", **given: Any) -> None:
    """Publish in one transaction; the key of a text is its first letter."""
    await app.platform.broker.publish_many(
        [
            NewEvent(topic, payload, payload[0] if isinstance(payload, str) else None, **given)
            for payload in payloads
        ]
    )


def dead(session: Session) -> list[tuple[Any, ...]]:
    query = "select handler, attempts, error from trunkline.broker_dead_list() order by retry"
    return session.execute(query).fetchall()


def living(session: Session, pid: int) -> bool:
    return bool(ask(session, "select exists (select from pg_stat_activity where pid = %s)", [pid]))


def set_aside(session: Session) -> int:
    return int(ask(session, "select count(*) from trunkline.broker_retry"))


def open_lanes(session: Session, handler: str) -> int:
    """Lanes of a handler that nobody owns, or that never had an owner."""
    return int(
        ask(
            session,
            "select count(*) from trunkline.owner where resource like 'broker:%%:' || %s"
            " and process is null",
            [handler],
        )
    )


async def test_a_handler_gets_the_events_of_its_topics_in_order(app: trunkline.App) -> None:
    seen: list[Event] = []

    @app.on("orders.*", group="g")
    async def handle(event: Event) -> None:
        seen.append(event)

    async with running(app):
        first = await app.publish("orders.new", {"n": 1}, key="a", metadata={"by": "me"})
        await app.publish("invoices.new", {"n": 2})
        await app.publish("orders.paid", {"n": 3}, key="a")
        await eventually(lambda: len(seen) == 2)
    event = seen[0]
    assert (event.event_id, event.topic, event.payload, event.key, event.metadata) == (
        first,
        "orders.new",
        {"n": 1},
        "a",
        {"by": "me"},
    )
    assert isinstance(event, Delivered)
    assert (event.attempt, list(event.errors)) == (1, [])
    assert seen[1].topic == "orders.paid"


async def test_payloads_come_as_models_and_a_plain_function_runs_in_a_thread(
    app: trunkline.App,
) -> None:
    seen: list[Any] = []

    @app.on("orders", group="g")
    def handle(order: Order, event: Event) -> None:
        seen.append((order, event.topic, threading.current_thread() is threading.main_thread()))

    async with running(app):
        await app.publish("orders", {"number": 7})
        await eventually(lambda: seen == [(Order(number=7), "orders", False)])


async def test_every_handler_gets_every_event_once(app: trunkline.App) -> None:
    seen: Counter[tuple[str, int]] = Counter()

    for group, name in (("g", "one"), ("g", "two"), ("h", "one")):

        @app.on("orders", group=group, name=name)
        async def handle(event: Event, where: str = group + name) -> None:
            seen[where, event.payload] += 1

    async with running(app):
        await publish(app, *range(30))
        await eventually(lambda: len(seen) == 90)
    assert set(seen.values()) == {1}


async def test_three_processes_with_one_handler_share_the_work_and_do_it_once(
    make: MakeApp,
) -> None:
    seen: Counter[int] = Counter()
    apps = [make() for _ in range(3)]
    for app in apps:

        @app.on("orders", group="g", name="handle")
        async def handle(event: Event) -> None:
            seen[event.payload] += 1

    async with running(*apps):
        for number in range(20):
            await apps[0].publish("orders", number, key=str(number))
        await eventually(lambda: len(seen) == 20)
    assert set(seen.values()) == {1}


async def test_the_order_of_keys_survives_processes_that_come_and_go(
    make: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HandlerWorker, "rejoin_every", 0.1)
    seen: list[tuple[str, int]] = []
    at_work: Counter[str] = Counter()
    clashes: list[str] = []

    def program() -> trunkline.App:
        app = make()

        @app.on("orders", group="g", name="handle")
        async def handle(event: Event) -> None:
            key = str(event.key)
            at_work[key] += 1
            if at_work[key] > 1:
                clashes.append(key)
            await asyncio.sleep(0.001)
            at_work[key] -= 1
            seen.append((key, event.payload))

        return app

    async def fill(app: trunkline.App, first: int) -> None:
        for number in range(first, first + 10):
            events = [NewEvent("orders", number, key) for key in "abcdefgh"]
            await app.platform.broker.publish_many(events)

    async with running(program()) as lasting:
        await fill(lasting, 0)
        for turn in (1, 3):
            async with running(program(), services=False):
                await fill(lasting, turn * 10)
                await eventually(lambda: len(seen) >= turn * 80)  # noqa: B023
            await fill(lasting, turn * 10 + 10)
        await eventually(lambda: len(seen) >= 400)
    assert len(seen) == 400
    assert clashes == []
    for key in "abcdefgh":
        assert [number for name, number in seen if name == key] == list(range(50))


async def test_a_batch_is_a_list_and_holds_no_more_than_asked_for(app: trunkline.App) -> None:
    seen: list[list[int]] = []

    @app.on("orders", group="g", batch=4)
    async def handle(orders: list[Order]) -> None:
        seen.append([order.number for order in orders])

    async with app:
        await app.register()
        await publish(app, *({"number": number} for number in range(10)))
        async with running(app):
            await eventually(lambda: sum(map(len, seen)) == 10)
    assert [number for batch in seen for number in batch] == list(range(10))
    assert max(map(len, seen)) == 4


async def test_a_blocked_handler_reads_a_bounded_number_ahead_and_holds_up_nobody(
    make: MakeApp, session: Session
) -> None:
    app = make(read_ahead=3)
    gate = asyncio.Event()
    others: list[int] = []

    @app.on("orders", group="g", name="blocked")
    async def blocked(event: Event) -> None:
        await gate.wait()

    @app.on("orders", group="g", name="other")
    async def other(event: Event) -> None:
        others.append(event.payload)

    async with running(app):
        await publish(app, *range(100))
        await eventually(lambda: len(others) == 100)
        await eventually(lambda: ask(session, POSITION, ["other"]) == 100)
        assert ask(session, POSITION, ["blocked"]) == 0
        worker = next(w for w in app.running if w.handler.name == "blocked")
        assert max(len(lane.queue) for lane in worker.lanes) <= 3
        gate.set()
        await eventually(lambda: ask(session, POSITION, ["blocked"]) == 100)


async def test_only_the_handler_that_failed_is_called_again(app: trunkline.App) -> None:
    """Theirs replays a batch for every handler of the group."""
    calls: list[tuple[str, int]] = []

    @app.on("orders", group="g", retry=[0])
    async def fails_once(event: Delivered) -> None:
        calls.append(("fails_once", event.attempt))
        if event.attempt == 1:
            raise ValueError("once")

    @app.on("orders", group="g")
    async def other(event: Delivered) -> None:
        calls.append(("other", event.attempt))

    async with running(app):
        await app.publish("orders", 1)
        await eventually(lambda: len(calls) == 3)
        await app.publish("orders", 2)
        await eventually(lambda: len(calls) == 6)
    assert Counter(calls) == {("fails_once", 1): 2, ("fails_once", 2): 2, ("other", 1): 2}


async def test_a_failed_batch_comes_again_unchanged_and_not_before_its_time(
    app: trunkline.App, session: Session
) -> None:
    calls: list[tuple[float, list[Delivered]]] = []

    @app.on("orders", group="g", batch=10, retry=[0.4])
    async def handle(events: list[Delivered]) -> None:
        calls.append((time.monotonic(), events))
        if len(calls) == 1:
            raise ValueError("not now")

    async with app:
        await app.register()
        await publish(app, "a1", "a2")
        async with running(app):
            await eventually(lambda: len(calls) == 2)
            await eventually(lambda: set_aside(session) == 0)
    (began, first), (again, second) = calls
    assert again - began >= 0.4
    assert [event.event_id for event in first] == [event.event_id for event in second]
    assert [event.payload for event in second] == ["a1", "a2"]
    assert {event.attempt for event in second} == {2}
    assert "ValueError: not now" in second[0].errors[0]["error"]


async def test_a_handler_that_always_fails_is_called_as_often_as_said_and_then_it_is_dead(
    app: trunkline.App, session: Session
) -> None:
    calls: Counter[str] = Counter()

    @app.on("orders", group="g", retry=[0, 0])
    async def handle(event: Event) -> None:
        calls[event.payload] += 1
        if event.payload == "a1":
            raise ValueError("never")

    async with running(app):
        await publish(app, "a1", "b1")
        await eventually(lambda: len(dead(session)) == 1)
        await publish(app, "c1")
        await eventually(lambda: calls["c1"] == 1)
    assert calls["a1"] == 3
    [(name, attempts, error)] = dead(session)
    assert name.endswith("handle")
    assert attempts == 3
    assert error == "ValueError: never"


async def test_no_retry_means_dead_at_once(app: trunkline.App, session: Session) -> None:
    @app.on("orders", group="g", retry=[])
    async def handle(event: Event) -> None:
        raise ValueError("no")

    async with running(app):
        await publish(app, "a1")
        await eventually(lambda: [row[1] for row in dead(session)] == [1])


async def test_a_failing_part_of_a_batch_is_tried_again_alone(app: trunkline.App) -> None:
    calls: list[list[str]] = []

    @app.on("orders", group="g", batch=10, retry=[0], split_by=lambda event: event.key)
    async def handle(events: list[Delivered]) -> None:
        calls.append([event.payload for event in events])
        if events[0].key == "a" and events[0].attempt == 1:
            raise ValueError("no")

    async with app:
        await app.platform.broker.group("g", lanes=1)
        await app.register()
        await publish(app, "a1", "b1", "a2")
        async with running(app):
            await eventually(lambda: len(calls) == 3)
    assert calls == [["a1", "a2"], ["b1"], ["a1", "a2"]]


async def test_a_payload_that_does_not_fit_is_a_dead_letter_at_once_and_others_go_on(
    app: trunkline.App, session: Session
) -> None:
    seen: list[int] = []

    @app.on("orders", group="g", batch=5)
    async def handle(orders: list[Order]) -> None:
        seen.extend(order.number for order in orders)

    async with running(app):
        await publish(app, {"number": 1}, {"number": "x"}, {}, None, [], {"number": 2})
        await eventually(lambda: (sorted(seen), len(dead(session))) == ([1, 2], 4))
    assert all(attempts == 1 for _, attempts, _ in dead(session))
    assert "number" in dead(session)[0][2]


class Priced(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        return {"good": name}[name]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [("1e5000", "4300 digits"), ("[" * 3000 + "]" * 3000, "recursion")],
    ids=["too long a number", "too deep"],
)
async def test_json_that_python_cannot_hold_is_a_dead_letter_and_others_go_on(
    app: trunkline.App, session: Session, payload: str, reason: str
) -> None:
    seen: list[Any] = []

    @app.on("orders", group="g", batch=10)
    async def handle(events: list[Event]) -> None:
        seen.extend(event.payload for event in events)

    async with running(app):
        for text in ("1", payload, "2"):
            session.execute("select trunkline.broker_publish('orders', %s::jsonb)", [text])
        await eventually(lambda: seen == [1, 2])
        await eventually(lambda: len(dead(session)) == 1)
        [letter] = await app.platform.broker.dead_list()
        shown = await app.platform.broker.dead_show(letter.retry)
        found = await app.platform.broker.events(shown.event_position, max_events=1)
    assert reason in letter.error
    assert isinstance(shown.payload, str)
    assert found[0].payload == shown.payload


async def test_json_that_the_server_cannot_send_is_a_dead_letter_and_others_go_on(
    app: trunkline.App, session: Session
) -> None:
    seen: list[Any] = []

    @app.on("orders", group="g", batch=10, timeout=120)
    async def handle(events: list[Event]) -> None:
        seen.extend(event.payload for event in events)

    async with running(app):
        await app.publish("orders", 1)
        session.execute(  # 130 kB in the table, 1 GB as text
            "insert into trunkline.event (topic, payload)"
            " select 'orders', jsonb_agg('1e131071'::jsonb) from generate_series(1, 8200)"
        )
        await app.publish("orders", 2)
        await eventually(lambda: seen == [1, 2], timeout=120)
        await eventually(lambda: len(dead(session)) == 1)
        session.execute("select trunkline.broker_dead_retry(retry) from trunkline.broker_retry")
        await app.publish("orders", 3)
        await eventually(lambda: seen == [1, 2, 3], timeout=120)
        await eventually(lambda: [attempts for _, attempts, _ in dead(session)] == [2], timeout=120)
    assert "more than the 1 GB that the server can send" in dead(session)[0][2]


async def test_a_validator_that_fails_otherwise_is_a_failure_of_the_handler(
    app: trunkline.App, session: Session
) -> None:
    seen: list[str] = []

    @app.on("orders", group="g", retry=[0])
    async def handle(order: Priced) -> None:
        seen.append(order.name)

    async with running(app):
        await publish(app, {"name": "bad"}, {"name": "good"})
        await eventually(lambda: len(dead(session)) == 1)
        await eventually(lambda: seen == ["good"])

    [(_, attempts, error)] = dead(session)
    assert (attempts, error) == (2, "KeyError: 'bad'")


async def test_later_events_of_a_failed_key_wait_and_come_in_order(app: trunkline.App) -> None:
    seen: list[str] = []
    healed = asyncio.Event()

    @app.on("orders", group="g", retry=[0.02] * 500)
    async def handle(event: Event) -> None:
        if event.payload == "a1" and not healed.is_set():
            raise ValueError("no")
        seen.append(event.payload)

    async with running(app):
        await publish(app, "a1", "a2", "b1", "a3")
        await eventually(lambda: seen == ["b1"])
        await publish(app, "a4", "b2")
        await eventually(lambda: seen == ["b1", "b2"])
        healed.set()
        await eventually(lambda: len(seen) == 6)
        await publish(app, "a5")
        await eventually(lambda: len(seen) == 7)
    assert [name for name in seen if name[0] == "a"] == ["a1", "a2", "a3", "a4", "a5"]


async def test_ordering_skip_lets_later_events_of_the_key_pass(app: trunkline.App) -> None:
    seen: list[str] = []

    @app.on("orders", group="g", retry=[600], ordering="skip")
    async def handle(event: Event) -> None:
        if event.payload == "a1":
            raise ValueError("no")
        seen.append(event.payload)

    async with running(app):
        await publish(app, "a1", "a2", "a3")
        await eventually(lambda: seen == ["a2", "a3"])


async def test_a_discarded_dead_letter_lets_its_key_go_on(
    app: trunkline.App, session: Session
) -> None:
    seen: list[str] = []

    @app.on("orders", group="g", retry=[])
    async def handle(event: Event) -> None:
        if event.payload == "a1":
            raise ValueError("no")
        seen.append(event.payload)

    async with running(app):
        await publish(app, "a1", "a2")
        await eventually(lambda: len(dead(session)) == 1)
        [letter] = await app.platform.broker.dead_list("g")
        assert await app.platform.broker.dead_discard(letter.retry) == 1
        await eventually(lambda: seen == ["a2"])


async def test_a_retried_dead_letter_is_handled(app: trunkline.App, session: Session) -> None:
    seen: list[int] = []

    @app.on("orders", group="g", retry=[])
    async def handle(event: Delivered) -> None:
        if event.attempt == 1:
            raise ValueError("no")
        seen.append(event.attempt)

    async with running(app):
        await publish(app, "a1")
        await eventually(lambda: len(dead(session)) == 1)
        await app.platform.broker.dead_retry(group_name="g", handler=app.handlers[0].name)
        await eventually(lambda: seen == [2])


async def test_a_handler_that_hangs_is_cut_off_and_the_others_go_on(
    app: trunkline.App, session: Session
) -> None:
    seen: list[str] = []
    release = threading.Event()

    @app.on("orders", group="g", timeout=0.05, retry=[0])
    async def hangs(event: Event) -> None:
        if event.payload == "a1":
            await asyncio.Event().wait()
        seen.append(event.payload)

    @app.on("orders", group="g", timeout=0.05, retry=[])
    def hangs_in_a_thread(event: Event) -> None:
        if event.payload == "a1":
            release.wait(60)
        seen.append(event.payload)

    async with running(app):
        await publish(app, "a1", "b1")
        await eventually(lambda: len(dead(session)) == 2)
        await eventually(lambda: seen == ["b1", "b1"])
    release.set()
    assert all("TimeoutError" in error for _, _, error in dead(session))


async def test_a_thread_that_goes_on_after_its_time_has_its_key_for_itself(
    app: trunkline.App, session: Session
) -> None:
    seen: list[tuple[str, int]] = []
    release = threading.Event()

    @app.on("orders", group="g", timeout=0.05, retry=[0, 0])
    def handle(event: Delivered) -> None:
        seen.append((event.payload, event.attempt))
        if event.payload == "a1":
            release.wait(60)

    async with running(app):
        await publish(app, "a1", "a2", "b1")
        await eventually(lambda: [attempts for _, attempts, _ in dead(session)] == [3])
        assert sorted(seen) == [("a1", 1), ("b1", 1)]
        assert "still at work" in dead(session)[0][2]
        release.set()
        await eventually(lambda: not app.handlers[0].at_work.has(["a"]))
        await app.platform.broker.dead_retry(group_name="g", handler=app.handlers[0].name)
        await eventually(lambda: seen[2:] == [("a1", 4), ("a2", 1)])


@pytest.mark.parametrize("batch", [1, 10])
async def test_a_later_event_of_a_key_is_not_handled_beside_a_thread_that_goes_on(
    app: trunkline.App, session: Session, batch: int
) -> None:
    seen: list[str] = []
    release = threading.Event()

    def handle(given: Any) -> None:
        events: list[Event] = given if isinstance(given, list) else [given]
        seen.extend(event.payload for event in events)
        if events[0].payload == "a1":
            release.wait(60)

    app.on("orders", group="g", name="h", timeout=0.05, ordering="skip", retry=[60], batch=batch)(
        handle
    )
    async with running(app):
        await publish(app, "a1")
        await eventually(lambda: set_aside(session) == 1)
        await publish(app, "a2", "b1")
        await eventually(lambda: set_aside(session) == 2)
        await eventually(lambda: seen == ["a1", "b1"])
        release.set()
        await eventually(lambda: not app.handlers[0].at_work.has(["a"]))
        session.execute("select trunkline._broker_hasten('g', 'h')")
        await eventually(lambda: sorted(seen[2:]) == ["a1", "a2"])


async def test_a_coroutine_that_will_not_be_cancelled_has_its_key_for_itself(
    app: trunkline.App, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.broker.invocation._CANCEL_PATIENCE", 0.05)
    gate = asyncio.Event()
    seen: list[int] = []

    @app.on("orders", group="g", timeout=0.05, retry=[0])
    async def handle(event: Delivered) -> None:
        seen.append(event.attempt)
        while not gate.is_set():
            with suppress(asyncio.CancelledError):
                await gate.wait()

    async with running(app):
        await publish(app, "a1")
        await eventually(lambda: len(dead(session)) == 1)
        assert seen == [1]
        gate.set()


async def test_threads_that_never_end_are_bounded_in_number(
    app: trunkline.App, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.broker.invocation._MOST_AT_WORK", 3)
    release = threading.Event()
    seen: list[int] = []

    @app.on("orders", group="g", timeout=0.05, retry=[])
    def handle(event: Event) -> None:
        seen.append(event.payload)
        release.wait(60)

    async with running(app):
        await publish(app, *range(5))
        await eventually(lambda: len(dead(session)) == 5)
        assert sorted(seen) == [0, 1, 2]
        release.set()
        await eventually(lambda: not app.handlers[0].at_work.crowded)
        await publish(app, 5)
        await eventually(lambda: seen[3:] == [5])


async def test_effect_and_position_are_committed_together(
    app: trunkline.App, session: Session
) -> None:
    session.execute("create table effect (n int)")

    @app.on("orders", group="g", retry=[0])
    async def handle(event: Delivered, connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("insert into effect values (%s)", [event.payload])
        if event.payload % 3 == 0 and event.attempt == 1:
            raise ValueError("after the effect")

    async with running(app):
        await publish(app, *range(30))
        await eventually(lambda: ask(session, "select count(*) from effect") == 30)
        await eventually(lambda: set_aside(session) == 0)
    assert column(session, "select n from effect order by n") == list(range(30))


async def test_a_commit_that_is_refused_counts_as_a_failure_of_the_handler(
    app: trunkline.App, session: Session
) -> None:
    session.execute("create table parent (id int primary key)")
    session.execute("create table child (id int references parent deferrable initially deferred)")

    @app.on("orders", group="g", retry=[0])
    async def handle(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        await transaction.execute("insert into child values (%s)", [event.payload])

    async with running(app):
        await publish(app, 1)
        await eventually(lambda: len(dead(session)) == 1)
    assert "ForeignKeyViolation" in dead(session)[0][2]
    assert dead(session)[0][1] == 2


async def test_a_refusal_to_park_events_is_told_as_it_is(
    app: trunkline.App, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    session.execute(
        "create function refuse() returns trigger language plpgsql as"
        " $$begin raise exception 'no room'; end$$"
    )
    session.execute(
        "create trigger refuse before insert on trunkline.broker_retry for each row"
        " when (new.status = 'parked') execute function refuse()"
    )

    @app.on("orders", group="g", retry=[])
    async def handle(event: Event, connection: psycopg.AsyncConnection[Any]) -> None:
        if event.payload == "a1":
            raise ValueError(event.payload)

    async with running(app):
        await publish(app, "a1")
        await eventually(lambda: len(dead(session)) == 1)
        await publish(app, "a2")
        await eventually(lambda: "handler held back" in caplog.text)
        session.execute("drop function refuse cascade")
        await eventually(lambda: set_aside(session) == 2)

    assert "DatabaseError: no room" in caplog.text
    assert "empty sequence" not in caplog.text


async def test_a_handler_that_ignores_an_error_of_its_transaction_has_failed(
    app: trunkline.App, session: Session
) -> None:
    @app.on("orders", group="g", retry=[])
    async def handle(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await transaction.execute("select 1 / 0")

    async with running(app):
        await publish(app, "a1")
        await eventually(lambda: len(dead(session)) == 1)
    assert "error of its transaction" in dead(session)[0][2]


async def test_a_handler_that_closes_the_connection_of_its_transaction_has_failed(
    app: trunkline.App, session: Session
) -> None:
    session.execute("create table effect (n text)")

    @app.on("orders", group="g", retry=[])
    async def handle(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        await transaction.execute("insert into effect values (%s)", [event.payload])
        if event.payload != "c1":
            await transaction.close()
        if event.payload == "b1":
            raise ValueError("out of paper")

    async with running(app):
        await publish(app, "a1")
        await eventually(lambda: len(dead(session)) == 1)
        await publish(app, "b1", "c1")
        await eventually(lambda: len(dead(session)) == 2)
        await eventually(lambda: column(session, "select n from effect") == ["c1"])
    assert "closed the connection" in dead(session)[0][2]
    assert "out of paper" in dead(session)[1][2]


async def test_a_handler_that_will_not_be_cancelled_loses_its_transaction_and_has_failed(
    app: trunkline.App, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.broker.invocation._CANCEL_PATIENCE", 0.05)
    session.execute("create table effect (n text)")
    gate = asyncio.Event()
    seen: list[str] = []

    @app.on("orders", group="g", timeout=0.1, retry=[])
    async def handle(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        await transaction.execute("insert into effect values (%s)", [event.payload])
        while event.payload == "a1" and not gate.is_set():
            with suppress(asyncio.CancelledError):
                await gate.wait()
        seen.append(event.payload)

    async with running(app):
        await publish(app, "a1", "b1")
        await eventually(lambda: len(dead(session)) == 1)
        await eventually(lambda: column(session, "select n from effect") == ["b1"])
        gate.set()
        await eventually(lambda: seen == ["b1", "a1"])
    assert column(session, "select n from effect") == ["b1"]


async def test_what_a_handler_publishes_in_its_transaction_follows_from_the_event(
    app: trunkline.App,
) -> None:
    seen: list[str] = []

    @app.on("orders", group="g")
    async def first(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        await app.publish("invoices", f"invoice of {event.payload}", on=transaction)

    @app.on("invoices", group="g")
    async def second(event: Event) -> None:
        seen.append(event.payload)

    async with running(app):
        await publish(app, "a1")
        await eventually(lambda: seen == ["invoice of a1"])


async def test_two_apps_with_one_group_and_different_handlers_lose_nothing(
    make: MakeApp,
) -> None:
    """Theirs moves the group past events for which this process has no handler."""
    seen: dict[str, list[str]] = defaultdict(list)
    one, two = make(), make()

    @one.on("orders", group="g", name="one")
    async def first(event: Event) -> None:
        seen["one"].append(event.payload)

    @two.on("orders", group="g", name="two")
    async def second(event: Event) -> None:
        seen["two"].append(event.payload)

    async with two:
        await two.register()
    async with running(one):
        await publish(one, "a1", "b1")
        await eventually(lambda: len(seen["one"]) == 2)
    assert seen["two"] == []
    async with running(two):
        await eventually(lambda: sorted(seen["two"]) == ["a1", "b1"])
    assert len(seen["one"]) == 2


async def test_events_between_registration_and_reading_are_not_skipped(
    app: trunkline.App,
) -> None:
    seen: list[str] = []

    @app.on("orders", group="g")
    async def handle(event: Event) -> None:
        seen.append(event.payload)

    async with app:
        await publish(app, "a0")
        await app.platform.broker.tick()
        await app.register()
        await publish(app, "a1")
    async with running(app):
        await eventually(lambda: seen == ["a1"])


async def test_a_retry_waits_for_a_handler_that_is_away_and_is_done_after_a_restart(
    make: MakeApp, session: Session
) -> None:
    """Theirs gives handlers random names: a retry from before a restart finds nobody."""
    seen: list[int] = []

    def program(*, fails: bool) -> trunkline.App:
        app = make()

        @app.on("orders", group="g", retry=[0.05])
        async def handle(event: Delivered) -> None:
            if fails:
                raise ValueError("no")
            seen.append(event.attempt)

        return app

    before = program(fails=True)
    async with running(before):
        await publish(before, "a1")
        await eventually(lambda: set_aside(session) == 1)
    async with running(make()):  # an app without this handler takes nothing away
        pass
    session.execute(
        "update trunkline.broker_retry set status = 'waiting', due_at = now(),"
        " attempts = 1, batch = retry"
    )
    async with running(program(fails=False)):
        await eventually(lambda: seen == [2])


async def test_a_graceful_stop_finishes_what_is_at_work_and_frees_the_lanes_at_once(
    make: MakeApp, session: Session
) -> None:
    app, at_work, gate = make(), asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    @app.on("orders", group="g", name="handle")
    async def handle(event: Event) -> None:
        at_work.set()
        await gate.wait()
        seen.append(event.payload)

    stop = asyncio.Event()
    async with app:
        await app.platform.broker.group("g", lanes=1)
        await app.register()
        task = asyncio.create_task(app.run(stop))
        await publish(app, 1, 2, 3)
        await asyncio.wait_for(at_work.wait(), 10)
        [worker] = app.running
        stop.set()
        await eventually(lambda: worker.is_stopping)
        gate.set()
        await asyncio.wait_for(task, 10)
        assert seen == [1]
        assert ask(session, POSITION, ["handle"]) == 1
        assert open_lanes(session, "handle") == 1


async def test_a_scope_that_is_cancelled_lets_handlers_finish_before_the_app_is_closed(
    make: MakeApp, session: Session
) -> None:
    app, at_work, gate = make(), asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    @app.on("orders", group="g", name="handle")
    async def handle(event: Event) -> None:
        at_work.set()
        await gate.wait()
        seen.append(event.payload)

    await app.open()
    await app.platform.broker.group("g", lanes=1)
    await app.register()
    async with anyio.create_task_group() as group:
        group.start_soon(app.run)
        await publish(app, 1, 2, 3)
        await asyncio.wait_for(at_work.wait(), 10)
        group.cancel_scope.cancel()
    closing = asyncio.create_task(app.close())
    await asyncio.wait({closing}, timeout=0.5)
    assert not closing.done()
    gate.set()
    await asyncio.wait_for(closing, 10)
    assert seen == [1]
    assert ask(session, POSITION, ["handle"]) == 1
    assert open_lanes(session, "handle") == 1


async def test_an_app_goes_on_by_itself_after_all_its_connections_were_cut(
    app: trunkline.App, session: Session
) -> None:
    seen: set[int] = set()
    session.execute("create table effect (n int)")

    @app.on("orders", group="g")
    async def handle(event: Event) -> None:
        seen.add(event.payload)

    @app.on("orders", group="g")
    async def exactly(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        await transaction.execute("insert into effect values (%s)", [event.payload])

    cut = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    async with running(app):
        for turn in range(5):
            for number in range(10):
                query = "select trunkline.broker_publish('orders', %s::text::jsonb)"
                session.execute(query, [str(turn * 10 + number)])
            session.execute(cut)
        await eventually(lambda: len(seen) == 50, 30)
        await eventually(lambda: ask(session, "select count(*) from effect") == 50, 30)
    assert ask(session, "select count(distinct n) from effect") == 50
    assert dead(session) == []


async def test_a_worker_that_lost_its_lane_drops_it_and_joins_again(
    app: trunkline.App, session: Session
) -> None:
    session.execute("create table effect (n int)")
    at_work, gate = asyncio.Event(), asyncio.Event()

    @app.on("orders", group="g")
    async def handle(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        await transaction.execute("insert into effect values (%s)", [event.payload])
        at_work.set()
        await gate.wait()

    async with running(app):
        await publish(app, 1)
        await asyncio.wait_for(at_work.wait(), 10)
        session.execute("update trunkline.owner set epoch = epoch + 1, process = null")
        gate.set()
        await eventually(lambda: ask(session, "select count(*) from effect") == 1)
        await publish(app, 2)
        await eventually(lambda: column(session, "select n from effect order by n") == [1, 2])


async def test_an_event_over_which_processes_die_ends_as_a_dead_letter(
    app: trunkline.App, session: Session
) -> None:
    """The state that three crashes leave: a lane of a dead owner, and three noted trials."""
    seen: list[str] = []

    @app.on("orders", group="g", name="handle", batch=10)
    async def handle(events: list[Event]) -> None:
        seen.extend(event.payload for event in events)

    async with app:
        await app.platform.broker.group("g", lanes=1)
        await app.register()
        await publish(app, "a1", "b1", "c1")
        await app.platform.broker.tick()
        await app.platform.broker.match()
        session.execute(
            "insert into trunkline.owner (resource, epoch, process, member, since)"
            " select trunkline._broker_resource(group_id, 'handle', 0), 1, %s, '', now()"
            " from trunkline.broker_group",
            [uuid4()],
        )
        session.execute(
            "insert into trunkline.broker_trial"
            " select group_id, 'handle', 0, 2, 3 from trunkline.broker_group"
        )
        async with running(app):
            await eventually(lambda: seen == ["a1", "c1"])
            await eventually(lambda: len(dead(session)) == 1)
            trials = "select count(*) from trunkline.broker_trial"
            await eventually(lambda: ask(session, trials) == 0)
    assert "died" in dead(session)[0][2]


async def test_a_handler_behind_the_history_goes_on_from_the_first_there_is(
    app: trunkline.App, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    @app.on("orders", group="g")
    async def handle(event: Event) -> None:
        seen.append(event.payload)

    async with app:
        await app.platform.broker.group("g", lanes=1)
        await app.register()
        await publish(app, "a1", "a2")
        await app.platform.broker.tick()
        await app.platform.broker.match()
        for name in ("broker.hold", "broker.retention", "maintain.settle"):
            session.execute("select trunkline.config_set(%s, '0')", [name])
        session.execute("select trunkline.config_set('ring.delivery.rotate_every', '1 ms')")
        session.execute("select trunkline.rings_rotate()")
        assert ask(session, "select trunkline.rings_rotate()")
        (group,) = await app.platform.broker.groups()
        await publish(app, "a3")
        async with running(app):
            await eventually(lambda: seen == ["a3"])
    assert (group.lost, group.lost_first, group.lost_last) == (2, 1, 2)
    assert "events lost" in caplog.text
    assert "deliveries 1 to 2" in caplog.text


async def test_a_seek_to_an_earlier_place_is_followed_by_a_running_handler(
    app: trunkline.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HandlerWorker, "rejoin_every", 0.2)
    seen: list[str] = []

    @app.on("orders", group="g", name="handle")
    async def handle(event: Event) -> None:
        seen.append(event.payload)

    async with running(app):
        await publish(app, "a1", "a2")
        await eventually(lambda: seen == ["a1", "a2"])
        await app.platform.broker.seek("g", handler="handle", up_to=0)
        await eventually(lambda: seen == ["a1", "a2"] * 2)
        await publish(app, "a3")
        await eventually(lambda: len(seen) == 5)
    assert seen[-1] == "a3"


async def test_events_that_have_left_before_their_deliveries_hold_up_nobody(
    app: trunkline.App, session: Session
) -> None:
    """Theirs waits for ever behind a chunk whose events are gone."""
    seen: list[str] = []

    @app.on("orders", group="g")
    async def handle(event: Event) -> None:
        seen.append(event.payload)

    async with app:
        await app.platform.broker.group("g", lanes=1)
        await app.register()
        await publish(app, *(f"a{number}" for number in range(40)))
        await app.platform.broker.tick()
        await app.platform.broker.match()
        session.execute("delete from trunkline.event where payload <> '\"a39\"'")
        async with running(app):
            await eventually(lambda: seen == ["a39"])


async def test_of_a_batch_that_failed_only_what_has_left_is_lost(
    app: trunkline.App, session: Session
) -> None:
    @app.on("orders", group="g", batch=3, retry=[3600])
    async def handle(_events: list[Event]) -> None:
        session.execute("delete from trunkline.event where payload = '2'")
        raise ValueError("no")

    async with running(app):
        await publish(app, 1, 2, 3)
        await eventually(lambda: set_aside(session) > 0)

    kept = "select payload from trunkline.broker_retry order by retry"
    assert column(session, kept) == [1, 3]


async def test_a_retry_holds_its_event_beyond_the_retention_of_events(
    app: trunkline.App, session: Session
) -> None:
    seen: list[str] = []

    @app.on("orders", group="g", name="handle", retry=[3600])
    async def handle(event: Delivered) -> None:
        if event.attempt == 1:
            raise ValueError("no")
        seen.append(event.payload)

    async with running(app):
        await publish(app, "a1")
        await eventually(lambda: set_aside(session) == 1)
        session.execute("delete from trunkline.event")
        session.execute("delete from trunkline.delivery")
        session.execute("select trunkline._broker_hasten('g', 'handle')")
        await eventually(lambda: seen == ["a1"])


async def test_history_is_handled_once_however_often_the_program_starts(
    make: MakeApp, session: Session
) -> None:
    seen: list[str] = []

    def program() -> trunkline.App:
        app = make()

        @app.on("orders", group="g", name="handle", from_position=1)
        async def handle(event: Event) -> None:
            seen.append(event.payload)

        return app

    async with make() as publisher:
        await publish(publisher, "a1", "a2")
        await publisher.platform.broker.tick()
        async with running(program()):
            await eventually(lambda: seen == ["a1", "a2"])
        async with running(program()):
            await publish(publisher, "a3")
            await eventually(lambda: len(seen) >= 3)
    assert seen == ["a1", "a2", "a3"]


async def test_a_program_that_began_with_the_history_starts_again_when_that_has_left(
    make: MakeApp, session: Session
) -> None:
    seen: list[str] = []

    def program(pattern: str) -> trunkline.App:
        app = make()

        @app.on(pattern, group="g", name="handle", from_position=1)
        async def handle(event: Event) -> None:
            seen.append(event.payload)

        return app

    async with make() as publisher:
        for payload in ("a1", "a2"):
            await publish(publisher, payload)
            await publisher.platform.broker.tick()
        async with running(program("orders")):
            await eventually(lambda: seen == ["a1", "a2"])
        session.execute("delete from trunkline.tick where first_position = 1")
        for pattern in ("orders", "orders.#"):
            async with running(program(pattern)):
                await publish(publisher, pattern)
                await eventually(lambda: seen[-1] == pattern)  # noqa: B023
    assert seen == ["a1", "a2", "orders", "orders.#"]


async def test_a_stream_tells_what_comes_from_now_on_and_leaves_nothing_behind(
    app: trunkline.App, session: Session
) -> None:
    async with running(app):
        await publish(app, "a0")
        await eventually(lambda: ask(session, "select trunkline.broker_head()") == 1)
        async with app.stream("orders") as stream:
            await publish(app, "a1", "b1", "a2")
            seen = []
            async for event in stream:
                seen.append(event.payload)
                if len(seen) == 3:
                    break
        assert seen == ["a1", "b1", "a2"]
        assert ask(session, "select count(*) from trunkline.broker_subscription") == 0


async def test_a_stream_may_be_looped_over_without_ceremony(app: trunkline.App) -> None:
    seen: list[Any] = []

    async def look() -> None:
        async for event in app.stream(condition={"eq": {"payload.n": 2}}):
            seen.append(event.payload)  # noqa: PERF401 - one by one, as they come

    async with running(app):
        looking = asyncio.create_task(look())

        async def heard() -> bool:
            await app.publish("orders", {"n": 2})
            return len(seen) > 0

        await eventually(heard)
        looking.cancel()
        await asyncio.wait({looking})
    assert seen[0] == {"n": 2}


@pytest.mark.parametrize("ends", ["with a statement", "without a word", "with its own error"])
async def test_a_handler_that_outlasts_the_patience_of_the_server_has_failed(
    clean_dsn: str, session: Session, ends: str
) -> None:
    """When the server leaves that is no fault of the event: it is tried until it succeeds."""
    impatient = make_conninfo(clean_dsn, options="-c idle_in_transaction_session_timeout=100")
    app, calls = trunkline.App(impatient), Counter[str]()

    @app.on("orders", group="g", retry=[0])
    async def pay(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        calls[event.payload] += 1
        if event.payload == "slow":
            await eventually(lambda: not living(session, transaction.info.backend_pid))
            try:
                if ends != "without a word":
                    await transaction.execute("select 1")
            except psycopg.Error as error:
                if ends == "with its own error":
                    raise ValueError("not paid") from error
                raise

    async with running(app):
        await publish(app, "slow", "fast")
        await eventually(lambda: len(dead(session)) == 1)
        await eventually(lambda: calls["fast"] == 1)
    assert calls["slow"] == 2
    [(_, _, error)] = dead(session)
    assert ("not paid" if ends == "with its own error" else "idle-in-transaction") in error


async def test_an_error_in_letters_that_the_database_lacks_is_the_error_of_its_event_alone(
    server: AnyServer,
) -> None:
    with new_database(server, template="template0", encoding="LATIN1") as name:
        app, seen = trunkline.App(server.dsn(name)), list[str]()
        migrate.install(server.dsn(name))

        @app.on("orders", group="g", retry=[])
        async def pay(event: Event) -> None:
            seen.append(event.payload)
            if event.payload == "bad":
                raise ValueError("5 € für nichts")

        async def dead() -> None:
            letters = await app.platform.broker.dead_list()
            assert [letter.error for letter in letters] == ["ValueError: 5 ? für nichts"]

        async with running(app):
            await publish(app, "bad", "good")
            await eventually(dead)
            await eventually(lambda: sorted(seen) == ["bad", "good"])


async def test_a_handler_that_had_read_further_than_a_standby_goes_back_to_where_that_stands(
    server: AnyServer, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another database takes the name of the first, which it was a copy of before the events."""
    monkeypatch.setattr(HandlerWorker, "rejoin_every", 60.0)
    seen: list[int] = []
    with new_database(server, template=template) as first:
        app = trunkline.App(server.dsn(first))

        @app.on("orders", group="billing", name="sees")
        async def sees(event: Event) -> None:
            seen.append(event.payload)

        async with app:
            await app.register()
        with psycopg.connect(server.dsn(first), autocommit=True) as session:
            session.execute("select trunkline.incarnation()")
        with new_database(server, template=first) as second:
            async with running(app, services=False):
                deliver(server.dsn(first), range(10))
                await eventually(lambda: seen == [*range(10)])
                await eventually(lambda: behind(server.dsn(first)) == 0)
                deliver(server.dsn(second), range(100, 120))
                await asyncio.to_thread(take_over, server, first, second)
                await eventually(lambda: len(seen) >= 30)
    assert seen[10:] == [*range(100, 120)]


@pytest.mark.parametrize("knows_group", [True, False])
async def test_a_handler_that_a_standby_has_not_heard_of_is_registered_there(
    server: AnyServer, template: str, *, knows_group: bool
) -> None:
    seen: list[int] = []
    with new_database(server, template=template) as first:
        with psycopg.connect(server.dsn(first), autocommit=True) as session:
            session.execute("select trunkline.incarnation()")
            if knows_group:
                session.execute("select trunkline.broker_subscribe('billing', handler => 'all')")
                session.execute("select trunkline.broker_publish('invoices', '-1')")
                match(session)
        app = trunkline.App(server.dsn(first))

        @app.on("orders", group="billing", name="sees")
        async def sees(event: Event) -> None:
            seen.append(event.payload)

        with new_database(server, template=first) as second:
            async with running(app):
                await app.publish("orders", 1)
                await eventually(lambda: seen == [1])
                await asyncio.to_thread(take_over, server, first, second)
                with psycopg.connect(server.dsn(first), autocommit=True) as session:
                    await eventually(lambda: "sees" in column(session, HANDLERS))
                await app.publish("invoices", -2)
                await app.publish("orders", 2)
                await eventually(lambda: len(seen) > 1)
    assert seen == [1, 2]


def behind(dsn: str) -> int:
    with psycopg.connect(dsn) as session:
        return int(ask(session, "select sum(waiting) from trunkline.broker_lag('billing')"))


def deliver(dsn: str, payloads: Iterable[int]) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        for payload in payloads:
            session.execute(
                "select trunkline.broker_publish('orders', to_jsonb(%s::int), key => 'k')",
                [payload],
            )
        match(session)
