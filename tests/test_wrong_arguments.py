"""Whatever a client is given that makes no sense, it says so: never with an error from within."""

from __future__ import annotations

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

import pytest

from trunkline import (
    App,
    BadRequest,
    DatabaseError,
    Invalid,
    NotFound,
    SchemaMismatch,
    TrunklineError,
    connect,
    connect_sync,
)
from trunkline.broker.conditions import all_of
from trunkline.testing import crash_handlers, eventually, run_handlers, wait_until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator


class Word(Enum):
    ORDERS = "orders"


def wrong_values() -> list[Any]:
    """Made anew each time: some can be used but once."""
    return [
        None,
        5,
        -1,
        2**70,
        1.5,
        float("nan"),
        "nonsense",
        "",
        "nul \0",
        "\ud800",
        b"bytes",
        [1, None],
        ["a", {}],
        {"a": 1},
        {1: object()},
        (each for each in [object()]),
        datetime.max,  # noqa: DTZ901 - without a zone, and none has room for it
        datetime(2026, 1, 1, tzinfo=UTC),
        timedelta(-1),
        timedelta.max,
        Word.ORDERS,
        True,
        object(),
        int,
    ]


RIGHT: dict[str, Any] = {
    "topic": "orders",
    "group": "billing",
    "group_name": "billing",
    "tube": "orders",
    "tubes": ["orders"],
    "relation": "orders",
    "keys": ["1"],
    "kind": None,
    "query": "select 1",
    "handler": "bill",
    "condition": None,
    "key_order": "committed",
    "by_whom": "services",
    "url": "https://example.com/",
    "secret": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0",
    "start": "earliest",
    "at_time": datetime(2026, 1, 1, tzinfo=UTC),
    "messages": ["a"],
    "payload": {},
    "events": [],
    "downstream": ("callable", {}),
    "partition": 0,
    "shard": 0,
    "key": "a",
    "value": 1,
    "values": {"a": 1},
    "offsets": {"n": 1},
    "zone": "east",
    "policy": "short",
    "keep": timedelta(days=1),
    "namespace": "default",
}
OTHERWISE = {"archive_add", "close", "process", "services", "watch", "worker_for"}


def methods(client: Any) -> Iterator[tuple[str, Callable[..., Any], list[inspect.Parameter]]]:
    for name in dir(client):
        method = getattr(client, name)
        if not name.startswith("_") and name not in OTHERWISE and callable(method):
            described = inspect.signature(inspect.unwrap(method.__func__)).parameters.values()
            named = [each for each in described if each.kind is not each.VAR_KEYWORD]
            yield name, method, [each for each in named if each.name != "self"]


async def misuse(
    client: Any, use: Callable[[Callable[..., Any], dict[str, Any]], Awaitable[None]]
) -> list[str]:
    """Give every parameter of every method everything; what is raised that should not be."""
    found = []
    for name, method, parameters in methods(client):
        needed = {each.name: RIGHT.get(each.name, 1) for each in parameters if needs(each)}
        for parameter in parameters:
            for value in wrong_values():
                told = f"{name}({parameter.name}={value!r:.50})"
                try:
                    async with asyncio.timeout(5):
                        await use(method, {**needed, parameter.name: value})
                except (SchemaMismatch, DatabaseError) as error:
                    found.append(f"{told}: {error!r}")
                except TrunklineError:
                    pass
                except Exception as error:
                    found.append(f"{told}: {error!r}")
    return found


def needs(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty


async def use(method: Callable[..., Any], arguments: dict[str, Any]) -> None:
    answer = method(**arguments)
    if inspect.isasyncgen(answer):
        async for _ in answer:
            pass
    elif inspect.isawaitable(answer):
        later = await answer
        if asyncio.isfuture(later):
            await later


async def use_blocking(method: Callable[..., Any], arguments: dict[str, Any]) -> None:
    def whole() -> None:
        answer = method(**arguments)
        if inspect.isgenerator(answer):
            list(answer)

    await asyncio.to_thread(whole)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("client", ["log", "broker", "tube", "kv"])
async def test_wrong_arguments_are_told_as_such_by_every_method_of_the_clients(
    dsn: str, client: str
) -> None:
    platform = await connect(dsn)
    await platform.log.create("orders")
    await platform.tube.ensure("orders")
    assert await misuse(getattr(platform, client), use) == []
    try:
        await platform.close()
    except TrunklineError:  # of what was enqueued
        assert client == "broker"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("client", ["log", "broker", "tube", "kv"])
async def test_wrong_arguments_are_told_as_such_by_every_method_of_the_blocking_clients(
    dsn: str, client: str
) -> None:
    platform = connect_sync(dsn)
    platform.log.create("orders")
    platform.tube.ensure("orders")
    assert await misuse(getattr(platform, client), use_blocking) == []
    try:
        await asyncio.to_thread(platform.close)
    except TrunklineError:  # of what was enqueued
        assert client == "broker"


@pytest.mark.parametrize("wrong", [5, b"orders", None, Word.ORDERS, 1.5, ["orders"]])
async def test_a_topic_that_is_no_text_is_invalid_and_not_a_matter_of_versions(
    dsn: str, wrong: Any
) -> None:
    async with connect(dsn) as platform:
        for call in (
            platform.log.create,
            platform.log.delete,
            platform.log.describe,
            platform.log.verify,
            platform.broker.group,
            platform.tube.ensure,
        ):
            with pytest.raises(Invalid, match=r"is text, got"):
                await call(wrong)


async def test_a_stream_says_what_a_token_and_params_are(dsn: str) -> None:
    async with App(dsn) as app:
        for stream in (app.stream, app.platform.broker.stream):
            with pytest.raises(Invalid, match=r"after is text, got 5\."):
                stream(after=5)  # type: ignore[arg-type]
            with pytest.raises(Invalid, match=r"params is a dict, got \['a'\]\."):
                stream(params=["a"])  # type: ignore[arg-type]
            with pytest.raises(Invalid, match="params cannot be written as JSON"):
                stream(params={"a": object()})


async def test_subscribing_and_explaining_say_what_params_are(dsn: str) -> None:
    async with connect(dsn) as platform:
        with pytest.raises(Invalid, match=r"params is a dict, got \['a'\]\."):
            await platform.broker.subscribe("billing", None, ["a"])  # type: ignore[arg-type]
        with pytest.raises(Invalid, match=r"params is a dict, got 'a'\."):
            await platform.broker.explain(None, "a")  # type: ignore[arg-type]
        with pytest.raises(Invalid, match=r"all_of\(\) takes conditions in the JSON form, got 5\."):
            all_of(5)  # type: ignore[arg-type]


async def test_watching_says_what_a_prefix_and_a_place_are(dsn: str) -> None:
    async with connect(dsn) as platform:
        with pytest.raises(Invalid, match=r"prefix is text, got 5\."):
            platform.kv.watch(5)  # type: ignore[arg-type]
        with pytest.raises(Invalid, match="after is a whole number"):
            platform.kv.watch(after="now")  # type: ignore[arg-type]


async def test_keys_and_options_of_a_tube_are_not_taken_apart_letter_by_letter(dsn: str) -> None:
    async with connect(dsn) as platform:
        tube = platform.tube
        await tube.ensure("orders")
        for keys in (None, "17"):
            with pytest.raises(Invalid, match="keys is a list, got"):
                await tube.touch("orders", None, keys)  # type: ignore[arg-type]
        with pytest.raises(Invalid, match=r"options is a dict, got 'url=x'\."):
            await tube.downstream("orders", "redis", "url=x")  # type: ignore[arg-type]
        with pytest.raises(Invalid, match="payload cannot be written as JSON"):
            await tube.touch("orders", None, ["17"], payload=object())
        for wrong in (("redis",), ("redis", "url=x"), 5):
            with pytest.raises(Invalid, match=r"is a dict|is a Downstream"):
                tube.worker("orders", wrong)
        with pytest.raises(Invalid, match=r"enrich is a query or an async function, got 5\."):
            tube.worker("orders", use, enrich=5)
        with pytest.raises(Invalid, match=r"pace is a Pace, got 5\."):
            tube.worker("orders", use, pace=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["assigned", "shared"])
async def test_a_batch_says_what_it_cannot_understand_and_stays_as_it_is(
    dsn: str, mode: str
) -> None:
    async with connect(dsn) as platform:
        await platform.log.create("orders")
        await platform.log.append("orders", ["a"])
        async with platform.log.consume("orders", "billing", mode=mode) as consumer:
            batch = await consumer.poll(10)
            assert batch is not None
            for wrong in (None, "1", float("nan"), timedelta(1)):
                with pytest.raises(Invalid, match="retry_after is a number of seconds, got"):
                    await batch.release(retry_after=wrong)  # type: ignore[arg-type]
            with pytest.raises(Invalid, match=r"deadline is a timedelta, got 5\."):
                await batch.extend(5)  # type: ignore[arg-type]
            with pytest.raises(Invalid, match="offset 0 is before those of this batch"):
                batch.written_by(0)
            await batch.commit()


async def test_a_batch_is_not_released_for_longer_than_times_can_be(dsn: str) -> None:
    async with connect(dsn) as platform:
        await platform.log.create("orders")
        await platform.log.append("orders", ["a"])
        async with platform.log.consume("orders", "billing", mode="shared") as consumer:
            batch = await consumer.poll(10)
            assert batch is not None
            for wrong in (float("inf"), 2**70):
                with pytest.raises(Invalid, match="retry_after is"):
                    await batch.release(retry_after=wrong)
            await batch.commit()


async def test_a_webhook_says_what_is_wrong_with_its_condition_and_its_waits(dsn: str) -> None:
    async with connect(dsn) as platform:
        add = platform.broker.webhook_add
        with pytest.raises(Invalid, match="condition cannot be written as JSON"):
            await add("billing", "https://example.com/", {"topic": object()})
        with pytest.raises(Invalid, match=r"retry is a timedelta, got 5\."):
            await add("billing", "https://example.com/", retry=[5])  # type: ignore[list-item]


async def test_a_start_that_is_none_is_refused_also_where_the_group_is_there_already(
    dsn: str,
) -> None:
    async with connect(dsn) as platform:
        for wrong in (None, 1.5, True, ["earliest"], b"earliest"):
            with pytest.raises(Invalid, match="a start is earliest, hot, latest, an offset or a"):
                platform.log.consume("orders", "billing", start=wrong)  # type: ignore[arg-type]
            with pytest.raises(Invalid, match="a start is earliest, hot, latest, an offset or a"):
                await platform.log.seek("orders", "billing", wrong)  # type: ignore[arg-type]


async def test_an_empty_topic_is_not_taken_for_the_topic_of_the_producer(dsn: str) -> None:
    async with connect(dsn) as platform:
        await platform.log.create("orders")
        async with platform.log.producer("orders") as producer:
            with pytest.raises(NotFound, match='""'):
                await producer.send("a", topic="")
            with pytest.raises(Invalid, match="a topic is text, got list"):
                await producer.send("a", topic=[])  # type: ignore[arg-type]
        assert [message async for message in platform.log.read("orders")] == []


async def test_a_key_that_no_row_can_have_is_not_touched(dsn: str) -> None:
    async with connect(dsn) as platform:
        await platform.tube.ensure("orders")
        for key in (None, b"17", {"id": 17}):
            with pytest.raises(Invalid, match="a key is text, a number, or a tuple"):
                await platform.tube.touch("orders", None, [key])
            with pytest.raises(Invalid, match="a key is text, a number, or a tuple"):
                await platform.tube.unpark("orders", [key])
        with pytest.raises(Invalid, match=r"replica is the AsyncDb of a standby, got 5\."):
            platform.tube.worker("orders", use, replica=5)  # type: ignore[arg-type]


async def test_a_stream_does_not_beat_without_end(dsn: str) -> None:
    async with connect(dsn) as platform:
        with pytest.raises(Invalid, match=r"heartbeat is a number of seconds, not negative"):
            platform.broker.stream(heartbeat=-1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"params": ""}, "params are a dict, got ''"),
        ({"params": {"a": object()}}, "params cannot be written as JSON"),
        ({"retry": b"11"}, "retry is a list of seconds"),
        ({"pattern": {"orders": 1}}, "a pattern is a topic or a list of topics"),
    ],
)
def test_a_handler_is_refused_for_what_would_only_fail_when_it_runs(
    wrong: dict[str, Any], said: str
) -> None:
    def bill(event: Any) -> None: ...

    app = App()
    with pytest.raises(Invalid, match=said):
        app.on(**{"group": "billing", **wrong})(bill)
    assert app.handlers == ()


async def test_an_app_is_not_run_until_something_that_is_no_event(dsn: str) -> None:
    async with App(dsn) as app:
        with pytest.raises(Invalid, match=r"stop is an asyncio\.Event, got 5\."):
            await app.run(5)  # type: ignore[arg-type]
        with pytest.raises(Invalid, match=r"handler is one that an App has registered, got 5\."):
            app.platform.broker.worker(5)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=r"app is an App, got 5\."):
        await run_handlers(5)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="app is text, got 5"):
        await crash_handlers(5, [])  # type: ignore[arg-type]


def test_waiting_for_what_cannot_be_called_is_refused_at_once() -> None:
    for wait in (eventually, wait_until):
        with pytest.raises(Invalid, match=r"assertion is a function, got True\."):
            wait(True)  # type: ignore[call-overload]
        with pytest.raises(Invalid, match=r"also is a tuple, got <class 'KeyError'>\."):
            wait(dict, also=KeyError)  # type: ignore[call-overload]
        with pytest.raises(Invalid, match=r"also is a tuple of exceptions, got 5 in it\."):
            wait(dict, also=(5,))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "wrong", [{"dsn": "\ud800"}, {"connect_timeout": float("inf")}, {"connect_timeout": 1e300}]
)
def test_connecting_refuses_what_no_server_can_be_asked_for(
    dsn: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(BadRequest):
        connect_sync(**{"dsn": dsn, **wrong})


def test_a_forgotten_await_is_told_with_what_to_write() -> None:
    with pytest.raises(AttributeError, match=r"tl = await connect\(\)"):
        _ = connect().log  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"async with connect\(\)"), connect():  # type: ignore[attr-defined]
        pass


def test_words_of_postgres_and_a_hint_are_two_sentences() -> None:
    assert str(NotFound("there is none", hint="Make one.")) == "there is none. Make one."
    assert str(NotFound("there is none")) == "there is none"
