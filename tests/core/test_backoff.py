"""Waits between attempts."""

from __future__ import annotations

import pytest

from trunkline.core.backoff import Backoff


def test_waits_double_up_to_the_longest() -> None:
    waits = Backoff(first=0.1, longest=0.5, jitter=0)

    assert [waits.next() for _ in range(5)] == pytest.approx([0.1, 0.2, 0.4, 0.5, 0.5])
    assert waits.attempts == 5


def test_chance_takes_its_share_of_a_wait_and_no_more() -> None:
    chances = iter([0.0, 0.5, 0.999])
    waits = Backoff(first=1, longest=1, jitter=0.5, random=lambda: next(chances))

    assert [waits.next() for _ in range(3)] == pytest.approx([1.0, 0.75, 0.5005])


def test_success_starts_over() -> None:
    waits = Backoff(first=1, longest=100, jitter=0)
    waits.next()
    waits.next()

    waits.reset()

    assert (waits.attempts, waits.next()) == (0, 1)


def test_thousands_of_failures_do_not_overflow() -> None:
    waits = Backoff(first=0.1, longest=30, jitter=0)

    assert [waits.next() for _ in range(5000)][-1] == 30


@pytest.mark.parametrize(
    "options", [{"first": 2, "longest": 1}, {"first": -1}, {"factor": 0.5}, {"jitter": 2}]
)
def test_waits_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Backoff(**options)  # type: ignore[arg-type]
