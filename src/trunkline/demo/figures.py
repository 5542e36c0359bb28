"""What the demonstration counts, and what it proves. Values only, no I/O."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Amount:
    """How much is written, and how fast: without ``messages`` it is ``seconds`` that end it."""

    per_second: int
    seconds: float
    messages: int | None = None

    @property
    def expected(self) -> int:
        """About how many messages there will be."""
        return int(self.per_second * self.seconds) if self.messages is None else self.messages

    def of_orders(self) -> Amount:
        """There are fewer orders than page views."""
        messages = None if self.messages is None else self.messages // 4
        return Amount(self.per_second // 4, self.seconds, messages)

    def half(self) -> Amount:
        """Half of it, as fast as all of it."""
        messages = None if self.messages is None else self.messages // 2
        return Amount(self.per_second, self.seconds / 2, messages)

    def divided(self, shares: int) -> Amount:
        """An equal share of it."""
        messages = None if self.messages is None else self.messages // shares
        return Amount(self.per_second // shares, self.seconds, messages)


@dataclass(slots=True)
class Figures:
    """What is known while it runs."""

    written: int = 0
    broken: int = 0
    by_page: Counter[str] = field(default_factory=Counter)
    mailed: set[tuple[int, int]] = field(default_factory=set)
    failures: int = 0
    dead: int = 0
    done: dict[str, int] = field(default_factory=dict)
    lag: dict[str, int] = field(default_factory=dict)
    members: int = 0
    orders: int = 0
    last_order: int = 0
    placed: int = 0
    invoiced: int = 0
    phantoms: int = 0
    forwarded: int = 0
    shipped: int = 0
    unanswered: int = 0
    lake: bool = True
    synced: int = 0
    visits: int = 0
    shown: int = 0
    cuts: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """A claim and what was found."""

    claim: str
    expected: int
    found: int

    @property
    def holds(self) -> bool:
        return self.expected == self.found
