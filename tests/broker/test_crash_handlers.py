"""`crash_handlers`: a user's own test of what handlers do when their process is killed."""

from __future__ import annotations

import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.asking import column

from trunkline import BadRequest, Invalid, NewEvent, NotFound
from trunkline.broker.models import Waiting
from trunkline.testing import CrashReport, HandlerCall, crash_handlers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.asking import Session

SHOP = """
import psycopg, trunkline

app = trunkline.App()

@app.on("orders", group="shop", name="bill", retry=[3600])
async def bill(order: int, event: trunkline.Delivered, transaction: psycopg.AsyncConnection):
    if event.key == "bad":
        raise ValueError("no such customer")
    await transaction.execute("insert into billed values (%s)", [order])
    async with app.platform.transaction() as elsewhere:
        await elsewhere.execute("insert into mailed values (%s)", [order])
    await app.publish("bills", order, key=event.key, on=transaction)

@app.on("bills", group="shop", name="file")
async def file(event: trunkline.Event): ...
"""

FIRST_RETURNED = 221
"""A seed with which the first process is killed when its first call has returned."""


@pytest.fixture
def modules(tmp_path: Path, clean_dsn: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where programs are put that speak to the database of the test."""
    monkeypatch.setenv("TRUNKLINE_DSN", clean_dsn)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("crashing_"):
            del sys.modules[name]


async def test_an_effect_outside_the_transaction_is_seen_twice_and_one_inside_once(
    modules: Path, session: Session
) -> None:
    (modules / "crashing_shop.py").write_text(SHOP)
    session.execute("create table billed (n int); create table mailed (n int)")
    orders = [NewEvent("orders", n, "bad" if n == 5 else "good") for n in range(9)]

    report = await crash_handlers(
        "crashing_shop:app", orders, times=2, seed=FIRST_RETURNED, timeout=100
    )

    good = [n for n in range(9) if n != 5]
    assert sorted(column(session, "select n from billed")) == good
    mailed = Counter(column(session, "select n from mailed"))
    assert mailed[0] >= 2
    assert sorted(mailed) == good

    handled = {e.payload: report.handled("bill")[e.event_id] for e in report.events["bill"]}
    assert handled[0] >= 2
    assert [n for n, times in handled.items() if not times] == [5]
    [letter] = report.dead
    assert (letter.handler, letter.payload, letter.attempts) == ("bill", 5, 2)
    assert [e.payload for e in report.events["file"]] == good
    for handler in ("bill", "file"):
        assert report.missed(handler) == []
        assert report.out_of_order(handler) == []


def waiting(number: int, key: str | None = "k") -> Waiting:
    now = datetime.now(UTC)
    return Waiting(0, number, number, number, "orders", key, number, None, now, [1], False)


def test_what_is_missed_and_what_comes_too_late_is_told() -> None:
    def call(event: int, *, returned: bool = True, error: str | None = None) -> HandlerCall:
        return HandlerCall("bill", [event], returned, error)

    report = CrashReport(
        calls=[
            call(1, returned=False),
            call(3),
            call(1),
            call(2, error="ValueError: no"),
            call(1),
            call(5),
            call(4),
        ],
        dead=[],
        events={"bill": [waiting(1), waiting(2), waiting(3), waiting(4, None), waiting(5, None)]},
    )
    assert report.handled("bill") == {1: 2, 2: 0, 3: 1, 4: 1, 5: 1}
    assert [event.payload for event in report.missed("bill")] == [2]
    assert [event.payload for event in report.out_of_order("bill")] == [2]
    with pytest.raises(Invalid, match='no handler "bil"'):
        report.missed("bil")


async def test_what_cannot_be_run_is_refused(modules: Path) -> None:
    (modules / "crashing_empty.py").write_text("import trunkline\napp = trunkline.App()")
    (modules / "crashing_exit.py").write_text(
        SHOP + "\nimport sys\nif 'victim' in sys.argv[0]: sys.exit('no paper')"
    )
    event = NewEvent("orders", 1)
    for app, events, times, error, told in [
        ("crashing_exit.py", [event], 1, BadRequest, "expected module:app"),
        ("crashing_nothing:app", [event], 1, NotFound, "no module"),
        ("crashing_empty:app", [event], 1, Invalid, "has no handlers"),
        ("crashing_exit:app", [], 1, Invalid, "expected events"),
        ("crashing_exit:app", [event], -1, Invalid, "expected events"),
        ("crashing_exit:app", [event], 1, Invalid, "ended by itself, with 1"),
    ]:
        with pytest.raises(error, match=told) as caught:
            await crash_handlers(app, events, times=times)
    assert "no paper" in caught.value.hint
