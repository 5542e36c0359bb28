"""Filters of Spark as bounds on what is read at all."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyspark.sql.datasource import Filter

    from trunkline.spark.plan import Range


@dataclass(frozen=True, slots=True)
class Bounds:
    """Topics, partitions and offsets that a query can see; None is all of them."""

    topics: frozenset[Any] | None = None
    partitions: frozenset[Any] | None = None
    first: int | None = None
    last: int | None = None

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> Bounds:
        """What a conjunction of filters says; those that say nothing of these are ignored."""
        bounds = cls()
        for one in filters:
            bounds = bounds.also(one)
        return bounds

    def also(self, one: Filter) -> Bounds:
        """These bounds and one filter more."""
        column = getattr(one, "attribute", None)
        value = getattr(one, "value", None)
        if isinstance(one, EqualTo | In):
            values = frozenset(one.value if isinstance(one, In) else (one.value,))
            if column == ("topic",):
                return replace(self, topics=_both(values, self.topics))
            if column == ("partition",):
                return replace(self, partitions=_both(values, self.partitions))
        if column != ("offset",) or not isinstance(value, int):
            return self
        low = {EqualTo: value, GreaterThanOrEqual: value, GreaterThan: value + 1}.get(type(one))
        high = {EqualTo: value, LessThanOrEqual: value, LessThan: value - 1}.get(type(one))
        return replace(
            self,
            first=self.first if low is None else max(low, self.first or low),
            last=self.last if high is None else min(high, high if self.last is None else self.last),
        )

    def narrow(self, asked: Range) -> Range:
        """The part of a range that can pass; empty when nothing can."""
        outside = (self.topics is not None and asked.topic not in self.topics) or (
            self.partitions is not None and asked.partition not in self.partitions
        )
        if outside:
            return replace(asked, last=asked.first - 1)
        return replace(
            asked,
            first=asked.first if self.first is None else max(asked.first, self.first),
            last=asked.last if self.last is None else min(asked.last, self.last),
        )


def lenient(narrow: Callable[[list[Filter]], Iterable[Filter]]) -> Any:
    """A ``pushFilters`` for sessions with and without filter push-down.

    Where a session has it off (Spark's default), Spark fails every query of a reader that overrides
    the method. It finds out by the function behind it, so this one shows the inherited function.
    """
    return _Lenient(narrow)


class _Lenient:
    def __init__(self, narrow: Callable[[list[Filter]], Iterable[Filter]]):
        self.__func__ = DataSourceReader.pushFilters
        self._narrow = narrow

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        return self._narrow(filters)


def _both(values: frozenset[Any], before: frozenset[Any] | None) -> frozenset[Any]:
    return values if before is None else values & before
