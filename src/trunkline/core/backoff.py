"""Waits that grow with every failure, a little random so that a crowd does not return at once."""

from __future__ import annotations

import random as standard_random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Backoff:
    """Seconds to wait: ``first``, then ``factor`` times more after every failure, to ``longest``.

    ``jitter`` is the share of a wait that is left to chance: 0 is exact, 1 is anything up to it.
    """

    def __init__(
        self,
        *,
        first: float = 0.1,
        longest: float = 30.0,
        factor: float = 2.0,
        jitter: float = 0.5,
        random: Callable[[], float] = standard_random.random,
    ):
        if not (0 <= first <= longest and factor >= 1 and 0 <= jitter <= 1):
            raise ValueError("expected 0 <= first <= longest, factor >= 1, 0 <= jitter <= 1")
        self.first = first
        self.longest = longest
        self.attempts = 0
        self._factor = factor
        self._jitter = jitter
        self._random = random
        self._full = first

    def next(self) -> float:
        """The wait after one more failure."""
        wait = self._full * (1 - self._jitter * self._random())
        self._full = min(self.longest, self._full * self._factor)
        self.attempts += 1
        return wait

    def reset(self) -> None:
        """After a success: the next failure starts from ``first`` again."""
        self.attempts = 0
        self._full = self.first
