"""What a function says of its parameters is held against what it is given."""

from __future__ import annotations

import inspect
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any

import pytest

from trunkline.core.arguments import checked
from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Plain(Enum):
    ORDERS = "orders"


class Text(StrEnum):
    ORDERS = "orders"


@checked
def asked(
    topic: str = "",
    number: int = 0,
    *,
    seconds: float = 0,
    whether: bool = False,
    wait: timedelta | None = None,
    at: datetime | None = None,
    options: Mapping[str, Any] | None = None,
    keys: Sequence[object] = (),
    several: Iterable[str] = (),
    function: Callable[[], Any] = dict,
    either: Sequence[dict[str, Any]] | Mapping[str, Sequence[str]] = (),
    anything: Any = None,
    unknown: Plain | None = None,
) -> str:
    return topic


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"topic": 5}, "topic is text, got 5."),
        ({"topic": None}, "topic is text, got None."),
        ({"topic": b"orders"}, "topic is text, got b'orders'."),
        ({"topic": Plain.ORDERS}, "topic is text, got <Plain.ORDERS: 'orders'>."),
        ({"number": "5"}, "number is a whole number, got '5'."),
        ({"number": 5.0}, "number is a whole number, got 5.0."),
        ({"number": True}, "number is a whole number, got True."),
        ({"seconds": float("nan")}, "seconds is a number of seconds, got nan."),
        ({"seconds": timedelta(1)}, "seconds is a number of seconds, got datetime.timedelta"),
        ({"whether": 1}, "whether is True or False, got 1."),
        (
            {"wait": 5},
            'wait is a timedelta, got 5. For example timedelta(minutes=5), or "5 minutes".',
        ),
        (
            {"at": 5},
            'at is a datetime, got 5. For example datetime.now(UTC), or "2030-01-31 12:00Z".',
        ),
        ({"options": "a=b"}, "options is a dict, got 'a=b'."),
        ({"options": [("a", "b")]}, "options is a dict, got [('a', 'b')]."),
        ({"keys": None}, "keys is a list, got None."),
        ({"keys": "17"}, "keys is a list, got '17'."),
        ({"several": {"a": 1}}, "several is a list, got {'a': 1}."),
        ({"either": 5}, "either is a list or a dict, got 5."),
        ({"function": 5}, "function is a function, got 5."),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected_and_what_came(
    wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(Invalid) as caught:
        asked(**wrong)
    assert str(caught.value).startswith(said)


def test_an_argument_by_place_is_named_like_any_other() -> None:
    with pytest.raises(Invalid, match=r"number is a whole number, got None\."):
        asked("orders", None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "right",
    [
        {"topic": Text.ORDERS},
        {"number": 2**70},
        {"seconds": 1},
        {"seconds": Decimal("0.5")},
        {"seconds": float("inf")},
        {"wait": None},
        {"wait": "5 minutes"},
        {"at": date(2026, 1, 1)},
        {"at": datetime.now(UTC)},
        {"at": "2026-01-01"},
        {"keys": {1, 2}},
        {"several": (str(n) for n in range(2))},
        {"either": {}},
        {"anything": object()},
        {"unknown": object()},
    ],
)
def test_what_stands_for_the_right_thing_is_taken(right: dict[str, Any]) -> None:
    asked(**right)


def test_numbers_of_other_libraries_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    asked("orders", numpy.int64(5), seconds=numpy.float32(0.5))
    with pytest.raises(Invalid, match="number is a whole number"):
        asked("orders", numpy.float64(5))


def test_a_long_argument_is_not_repeated_whole() -> None:
    with pytest.raises(Invalid) as caught:
        asked(topic=["x" * 10_000])  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200


async def test_a_coroutine_stays_one_and_tells_when_it_is_awaited() -> None:
    @checked
    async def later(topic: str) -> str:
        return topic

    assert inspect.iscoroutinefunction(later)
    assert await later("orders") == "orders"
    coroutine = later(5)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="topic is text"):
        await coroutine
