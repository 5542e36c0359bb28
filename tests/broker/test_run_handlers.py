"""`run_handlers`: a user's own test of handlers, to the end of a list of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg  # noqa: TC002 - annotations are looked at
import pytest
from tests.fixtures.asking import ask

import trunkline
from trunkline.broker.delivered import Delivered  # noqa: TC001 - annotations are looked at
from trunkline.broker.models import Event, NewEvent
from trunkline.core import errors
from trunkline.testing import run_handlers

if TYPE_CHECKING:
    from tests.fixtures.asking import Session


@pytest.fixture
def app(clean_dsn: str) -> trunkline.App:
    return trunkline.App(clean_dsn)


async def test_every_event_is_handled_and_retries_do_not_wait(app: trunkline.App) -> None:
    @app.on("orders", group="g", name="bill", retry=[3600])
    async def bill(event: Delivered) -> None:
        if event.payload == 2 and event.attempt == 1:
            raise ValueError("no paper")

    outcome = await run_handlers(app, [NewEvent("orders", number) for number in range(5)])
    assert sorted(event.payload for event in outcome.handled("bill")) == [0, 1, 2, 3, 4]
    assert outcome.errors("bill") == ["ValueError: no paper"]
    assert outcome.dead == []


async def test_dead_letters_are_told(app: trunkline.App) -> None:
    @app.on("orders", group="g", name="bill", retry=[60, 300])
    async def bill(event: Event) -> None:
        raise ValueError("never")

    outcome = await run_handlers(app, [NewEvent("orders", {"n": 1})])
    [letter] = outcome.dead
    assert (letter.payload, letter.attempts, len(outcome.attempts)) == ({"n": 1}, 3, 3)


async def test_dead_letters_of_earlier_runs_are_not_told_again(app: trunkline.App) -> None:
    @app.on("orders", group="g", name="bill", retry=[])
    async def bill(event: Event) -> None:
        raise ValueError("never")

    for number in range(2):
        outcome = await run_handlers(app, [NewEvent("orders", number)])
        assert [letter.payload for letter in outcome.dead] == [number]


async def test_an_earlier_dead_letter_that_holds_back_an_event_is_told(app: trunkline.App) -> None:
    @app.on("orders", group="g", name="bill", retry=[])
    async def bill(event: Event) -> None:
        raise ValueError("never")

    for number in range(2):
        outcome = await run_handlers(app, [NewEvent("orders", number, key="ann")])
    assert outcome.attempts == []
    assert [letter.payload for letter in outcome.dead] == [0]


async def test_a_handler_that_the_app_does_not_have_is_not_taken_for_one_without_errors(
    app: trunkline.App,
) -> None:
    @app.on("orders", group="g", name="bill")
    async def bill(event: Event) -> None:
        raise ValueError("never")

    outcome = await run_handlers(app)
    assert (outcome.errors("bill"), outcome.handled("bill")) == ([], [])
    for ask_for in (outcome.errors, outcome.handled):
        with pytest.raises(errors.Invalid, match='no handler "bil"') as caught:
            ask_for("bil")
        assert caught.value.hint == "It has: bill."


async def test_a_connection_that_is_lost_is_no_end(
    app: trunkline.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trunkline.broker.worker.HandlerWorker.look_every", 0.0)
    calls: list[int] = []

    @app.on("orders", group="g", name="bill")
    async def bill(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        calls.append(event.payload)
        if len(calls) < 5:
            await transaction.execute("select pg_terminate_backend(pg_backend_pid())")

    outcome = await run_handlers(app, [NewEvent("orders", 1)])
    assert [event.payload for event in outcome.handled("bill")] == [1]


async def test_a_program_that_was_held_up_for_longer_than_a_lease_lasts_handles_its_events(
    app: trunkline.App, session: Session
) -> None:
    @app.on("orders", group="g", name="bill")
    async def bill(event: Event) -> None: ...

    async with app:
        await app.register()
        session.execute("select trunkline.lease_end(process) from trunkline.lease")
        await app.register()
        session.execute("select trunkline.lease_end(process) from trunkline.lease")
        outcome = await run_handlers(app, [NewEvent("orders", 1)])
    assert [event.payload for event in outcome.handled("bill")] == [1]


async def test_a_handler_that_begins_with_the_history_gets_it(app: trunkline.App) -> None:
    @app.on("orders", group="g", name="bill", from_position=1)
    async def bill(event: Event) -> None: ...

    async with app:
        await app.publish("orders", 1)
        await app.platform.broker.tick()
        outcome = await run_handlers(app, [NewEvent("orders", 2)])

    assert [event.payload for event in outcome.handled("bill")] == [1, 2]


async def test_what_handlers_publish_is_handled_too(app: trunkline.App) -> None:
    @app.on("orders", group="g", name="bill")
    async def bill(event: Event, transaction: psycopg.AsyncConnection[Any]) -> None:
        await app.publish("invoices", event.payload, on=transaction)

    @app.on("invoices", group="g", name="send")
    async def send(event: Event) -> None: ...

    outcome = await run_handlers(app, [NewEvent("orders", 1), NewEvent("orders", 2)])
    assert sorted(event.payload for event in outcome.handled("send")) == [1, 2]


async def test_it_can_be_run_again_and_goes_on_where_it_was(app: trunkline.App) -> None:
    @app.on("orders", group="g", name="bill")
    async def bill(event: Event) -> None: ...

    async with app:
        first = await run_handlers(app, [NewEvent("orders", 1)])
        second = await run_handlers(app, [NewEvent("orders", 2)])
    assert [event.payload for event in first.handled("bill")] == [1]
    assert [event.payload for event in second.handled("bill")] == [2]


async def test_a_handler_finds_its_event_behind_many_that_are_for_others(
    app: trunkline.App, session: Session
) -> None:
    ask(session, "select trunkline.config_set('broker.match_events', '500')")

    @app.on("many", group="g", name="many", batch=100)
    async def all_of_them(events: list[Event]) -> None: ...

    @app.on("rare", group="g", name="rare")
    async def only_one(event: Event) -> None: ...

    events = [NewEvent("many", number, "k") for number in range(4_000)]
    outcome = await run_handlers(app, [*events, NewEvent("rare", 1, "k")])
    assert [event.payload for event in outcome.handled("rare")] == [1]
