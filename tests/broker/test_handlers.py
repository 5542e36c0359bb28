"""Registration of handlers: what is understood, and what is refused before anything runs."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import psycopg  # noqa: TC002 - annotations are looked at
import pytest
from pydantic import BaseModel

import trunkline
from trunkline.broker.delivered import Delivered
from trunkline.broker.handlers import Unfit, make
from trunkline.broker.invocation import Failed, invoke
from trunkline.broker.models import Event  # noqa: TC001 - annotations are looked at
from trunkline.core.errors import BadRequest, Conflict, Invalid

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from trunkline.broker.handlers import Handler


class Order(BaseModel):
    number: int
    paid: bool = False


@dataclass
class Line:
    item: str
    count: int


async def plain(event: Event) -> None: ...


async def many_events(events: list[Event]) -> None: ...


def event(payload: Any = None, **given: Any) -> Delivered:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return Delivered(1, 1, "orders", None, payload, None, None, at, **given)


def condition(*args: Any, **given: Any) -> Any:
    text = make(plain, *args, group="g", **given).condition
    return text if text is None or text[0] != "{" else json.loads(text)


def value(handler: Handler, payload: Any) -> Any:
    return handler.fitted(event(payload))


def test_the_name_of_a_handler_is_that_of_its_function_and_never_random() -> None:
    assert make(plain, group="g").name == make(plain, group="g").name == "plain"
    assert make(plain, group="g", name="bill").name == "bill"


async def test_a_staticmethod_is_a_handler_like_any_function_whichever_decorator_is_above() -> None:
    app, seen = trunkline.App(), []

    class Shop:
        @app.on("orders", group="g")
        @staticmethod
        async def above(order: Order) -> None:
            seen.append(order.number)

        @staticmethod
        @app.on("orders", group="g")
        async def below(order: Order) -> None:
            seen.append(order.number)

    for handler in app.handlers:
        await handler.invoke(handler.call([event()], [Order(number=1)], None), [event()])
    await Shop.above(Order(number=2))
    assert [handler.is_async for handler in app.handlers] == [True, True]
    assert [handler.name.rpartition(".")[2] for handler in app.handlers] == ["above", "below"]
    assert seen == [1, 1, 2]


def test_a_method_without_its_object_or_class_is_refused_where_it_is_decorated() -> None:
    app = trunkline.App()
    with pytest.raises(Invalid, match=r"Shop\.bill\" is a classmethod.*staticmethod"):

        class Shop:
            @app.on("orders", group="g")
            @classmethod
            async def bill(cls, order: Order) -> None: ...

    with pytest.raises(Invalid, match=r"is a method.*object\.method"):

        class Store:
            @app.on("orders", group="g")
            async def bill(self, event: Event) -> None: ...

    assert app.handlers == ()


def test_a_method_of_an_object_or_a_class_is_a_handler() -> None:
    class Shop:
        async def bill(self, order: Order) -> None: ...

        @classmethod
        async def send(cls, order: Order) -> None: ...

    assert value(make(Shop().bill, group="g"), {"number": 1}) == Order(number=1)
    assert value(make(Shop.send, group="g"), {"number": 1}) == Order(number=1)


def test_what_has_no_lasting_name_must_be_given_one() -> None:
    for function in (lambda event: None, partial(plain)):
        with pytest.raises(Invalid, match="stays the same"):
            make(function, group="g")
        assert make(function, group="g", name="x").name == "x"


def test_a_pattern_and_a_condition_become_one() -> None:
    assert condition() is None
    assert condition("orders.*") == {"topic": "orders.*"}
    assert condition(["a", "b"]) == {"topic": ["a", "b"]}
    assert condition(condition={"eq": {"key": "x"}}) == {"eq": {"key": "x"}}
    assert condition("a", condition={"eq": {"key": "x"}}) == {
        "and": [{"topic": "a"}, {"eq": {"key": "x"}}]
    }
    assert condition("a", condition='{"key": "x"}') == {"and": [{"topic": "a"}, {"key": "x"}]}
    assert condition(condition="e.key = 'x'") == "e.key = 'x'"


def test_a_pattern_beside_a_condition_in_sql_is_sql_too() -> None:
    assert condition("it's", condition="true") == "(e.topic = 'it''s') and (true\n)"
    assert condition("a.*", condition="true -- all") == (
        "(e.topic ~ '^a\\.[^.]+$') and (true -- all\n)"
    )
    assert condition(["#", "a.#", "#.a", "a.#.b"], condition="x").startswith(
        "(e.topic ~ '^.*$' or e.topic ~ '^a(\\..*)?$' or e.topic ~ '^(.*\\.)?a$'"
        " or e.topic ~ '^a(\\..*)?\\.b$')"
    )


@pytest.mark.parametrize(
    "given",
    [
        {"ordering": "chaos"},
        {"batch": 0},
        {"batch": 10**9},
        {"timeout": 0},
        {"timeout": None},
        {"retry": [-1]},
        {"retry": [float("inf")]},
        {"retry": [float("nan")]},
        {"retry": "60"},
        {"retry": 60},
        {"group": ""},
        {"name": ""},
        {"pattern": ""},
        {"pattern": []},
        {"pattern": "a*", "condition": "true"},
        {"pattern": 7},
        {"condition": 7},
        {"params": [1]},
        {"split_by": "customer"},
        {"name": 7},
        {"condition": "{not json"},
        {"from_time": datetime(2026, 1, 1, tzinfo=UTC), "from_position": 1},
        {"from_time": "yesterday"},
        {"from_position": "1"},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_with_the_name_of_the_handler(given: Any) -> None:
    with pytest.raises(Invalid, match=r"handler|pattern"):
        make(plain, **{"group": "g", **given})


def test_functions_that_nobody_would_run_are_refused() -> None:
    def generator(event: Event) -> Iterator[int]:
        yield 1

    async def async_generator(event: Event) -> AsyncIterator[int]:
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(Invalid, match="generator"):
            make(function, group="g")


def test_a_signature_that_cannot_be_filled_is_refused() -> None:
    async def nothing() -> None: ...

    async def too_much(event: Event, mailer: object) -> None: ...

    def with_transaction(event: Event, transaction: object) -> None: ...

    async def unknown(event: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    async def connection(payload: threading.Thread) -> None: ...

    async def twice(
        event: Event, transaction: psycopg.AsyncConnection[Any], more: psycopg.AsyncConnection[Any]
    ) -> None: ...

    async def thrice(payload: int, event: Event, again: Event) -> None: ...

    for function, said in (
        (nothing, "takes no event"),
        (too_much, '"mailer"'),
        (with_transaction, "async"),
        (unknown, "Nowhere"),
        (connection, "cannot be made into"),
        (twice, '"more"'),
        (thrice, '"again"'),
    ):
        with pytest.raises(Invalid, match=said):
            make(function, group="g")


def test_a_list_is_taken_exactly_when_batches_are_asked_for() -> None:
    async def many(orders: list[Order]) -> None: ...

    async def one(order: Order) -> None: ...

    assert make(many, group="g", batch=10).fitted(event({"number": 1})) == Order(number=1)
    for function, batch in ((many, 1), (one, 10)):
        with pytest.raises(Invalid, match="batch"):
            make(function, group="g", batch=batch)


def test_payloads_become_models_dataclasses_or_what_else_is_annotated() -> None:
    async def model(order: Order) -> None: ...

    async def values(line: Line) -> None: ...

    async def bare(payload: dict[str, int]) -> None: ...

    async def anything(event) -> None: ...  # type: ignore[no-untyped-def]

    assert value(make(model, group="g"), {"number": 1}) == Order(number=1)
    assert value(make(values, group="g"), {"item": "tea", "count": 2}) == Line("tea", 2)
    assert value(make(bare, group="g"), {"a": 1}) == {"a": 1}
    assert value(make(anything, group="g"), 5) == value(make(plain, group="g"), 5) == event(5)


def test_a_payload_that_does_not_fit_is_told_field_by_field() -> None:
    async def bill(order: Order) -> None: ...

    with pytest.raises(Unfit, match=r"event 1 does not fit Order: number: .*integer"):
        value(make(bill, group="g"), {"number": "many"})
    with pytest.raises(Unfit, match="Order"):
        value(make(bill, group="g"), None)


def test_event_and_transaction_are_given_by_annotation_or_name() -> None:
    async def both(
        order: Order, event: Event, connection: psycopg.AsyncConnection[Any], *, note: str = ""
    ) -> None: ...

    async def named(event: Event, transaction: Any) -> None: ...

    async def optional(
        event: Event, connection: Annotated[psycopg.AsyncConnection[Any] | None, "ours"] = None
    ) -> None: ...

    handler = make(both, group="g")
    assert (handler.arguments.event, handler.arguments.transaction) == ("event", "connection")
    assert make(named, group="g").arguments.transaction == "transaction"
    assert make(optional, group="g").arguments.transaction == "connection"
    assert not make(plain, group="g").takes_transaction


def test_retry_delays_follow_the_list_and_end_with_it() -> None:
    handler = make(plain, group="g", retry=[60, 300])
    assert [handler.delay_after(attempts) for attempts in (1, 2, 3)] == [60, 300, None]
    assert make(plain, group="g", retry=[]).delay_after(1) is None


def test_a_batch_is_split_by_key_in_the_order_of_first_events() -> None:
    handler = make(many_events, group="g", batch=10, split_by=lambda event: event.payload % 2)
    parts = handler.split([event(number) for number in (3, 2, 1, 4)])
    assert [[each.payload for each in part] for part in parts] == [[3, 1], [2, 4]]


def test_two_handlers_of_one_name_in_one_group_are_refused() -> None:
    app = trunkline.App()
    app.on(group="g")(plain)
    with pytest.raises(Conflict, match='"g" has a handler "plain"'):
        app.on(group="g")(plain)
    app.on(group="other")(plain)
    assert len(app.handlers) == 2


def test_a_registered_function_stays_what_it_was() -> None:
    app = trunkline.App()
    assert app.on(group="g")(plain) is plain


def test_classes_of_the_enclosing_function_may_be_annotated() -> None:
    class Local(BaseModel):
        x: int

    app = trunkline.App()

    @app.on(group="g")
    async def handle(local: Local) -> None: ...

    assert value(app.handlers[0], {"x": 1}) == Local(x=1)


def test_a_strict_model_takes_what_json_has_for_its_types() -> None:
    class Strict(BaseModel, strict=True):
        number: int
        at: datetime
        parts: tuple[int, ...]

    async def handle(strict: Strict) -> None: ...

    handler = make(handle, group="g", names=locals())
    fitted = value(handler, {"number": 1, "at": "2026-01-01T00:00:00Z", "parts": [1, 2]})
    assert fitted == Strict(number=1, at=datetime(2026, 1, 1, tzinfo=UTC), parts=(1, 2))
    with pytest.raises(Unfit, match="number: Input should be a valid integer"):
        value(handler, {"number": "1", "at": "2026-01-01T00:00:00Z", "parts": []})


def test_an_event_may_be_annotated_in_any_way() -> None:
    async def optional(event: Event | None) -> None: ...

    async def annotated(event: Annotated[Event, "the event"]) -> None: ...

    async def beside(number: int, event: Annotated[Event | None, "too"] = None) -> None: ...

    for function in (optional, annotated):
        assert value(make(function, group="g"), 1) == event(1)
    assert make(beside, group="g").arguments.event == "event"


def test_an_app_that_is_not_open_says_so() -> None:
    with pytest.raises(BadRequest, match="not open"):
        trunkline.App().stream("orders")


def test_the_environment_sets_the_read_ahead_an_argument_wins_and_junk_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRUNKLINE_READ_AHEAD", "3")
    assert trunkline.App().settings.read_ahead == 3
    assert trunkline.App(read_ahead=5).settings.read_ahead == 5
    monkeypatch.setenv("TRUNKLINE_READ_AHEAD", "many")
    with pytest.raises(BadRequest, match="TRUNKLINE_READ_AHEAD"):
        trunkline.App()


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_call_that_only_makes_a_generator_has_failed(is_async: bool) -> None:
    def generator() -> Iterator[int]:
        yield 1

    async def async_generator() -> AsyncIterator[int]:
        yield 1

    for function in (generator, async_generator):
        with pytest.raises(Failed, match="a generator, which does nothing by itself"):
            await invoke(lambda f=function: f(), is_async=is_async, timeout=5)


async def test_a_plain_function_runs_in_a_thread_and_its_coroutine_is_awaited() -> None:
    seen: list[bool] = []

    async def later() -> None:
        seen.append(threading.current_thread() is threading.main_thread())

    def forgetful() -> Any:
        seen.append(threading.current_thread() is threading.main_thread())
        return later()

    await invoke(forgetful, is_async=False, timeout=5)
    assert seen == [False, True]


@pytest.mark.parametrize("is_async", [True, False])
async def test_whatever_a_handler_raises_is_told(is_async: bool) -> None:
    def bad() -> None:
        raise ValueError("out of paper")

    with pytest.raises(Failed, match=r"ValueError: out of paper\n.*in bad") as caught:
        await invoke(bad, is_async=is_async, timeout=5)
    assert "invocation.py" not in str(caught.value)


async def test_an_error_that_cannot_be_told_is_a_failure_too() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    async def bad() -> None:
        raise Mute

    with pytest.raises(Failed, match=r"Mute: its text cannot be told\n.*in bad"):
        await invoke(bad, is_async=True, timeout=5)


async def test_a_plain_handler_that_interrupts_itself_ends_nothing_but_its_call() -> None:
    def bad() -> None:
        raise KeyboardInterrupt

    with pytest.raises(Failed, match="KeyboardInterrupt"):
        await invoke(bad, is_async=False, timeout=5)


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError(), StopIteration()])
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_can_end_neither_the_worker_nor_the_process(
    error: BaseException, is_async: bool
) -> None:
    def bad() -> None:
        raise error

    async def async_bad() -> None:
        bad()

    with pytest.raises(Failed):
        await invoke(async_bad if is_async else bad, is_async=is_async, timeout=5)


async def test_a_coroutine_that_takes_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(Failed, match=r"longer than 0\.01 s"):
        await invoke(hangs, is_async=True, timeout=0.01)
    assert cancelled.is_set()


async def test_a_thread_that_takes_too_long_has_failed_and_holds_up_nobody() -> None:
    release = threading.Event()
    with pytest.raises(Failed, match="TimeoutError"):
        await invoke(lambda: release.wait(60), is_async=False, timeout=0.01)
    release.set()
