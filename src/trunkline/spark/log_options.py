"""`LogOptions`: which messages of which topics are read, in the words of Kafka's source."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from trunkline.core.errors import Invalid
from trunkline.spark.log_schema import COLUMNS
from trunkline.spark.options import Options, Words
from trunkline.spark.positions import Place, parse_assignment, parse_times

_DURATION = re.compile(r"(\d{1,9})\s*(ms|s|min|m|h|d)")
_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


class LogOptions(Options):
    """Options of the source; offsets are the next to read, as in Kafka's source."""

    subscribe: Words | None = Field(default=None, min_length=1)
    """Topics, separated by commas; or one of the next two."""
    subscribe_pattern: str | None = Field(default=None, min_length=1)
    """A regular expression: all topics whose whole name fits it, also those that are made later."""
    assign: dict[str, tuple[int, ...]] | None = None
    """Only these partitions, as JSON: ``{"orders": [0, 1]}``."""
    columns: Words | None = None
    """Only these columns; Spark reads all of a Python source otherwise."""
    include_headers: bool = False
    """A column ``headers`` with JSON texts."""
    starting_offsets: str | None = Field(default=None, min_length=1)
    """earliest, latest or JSON; by default earliest, and latest for a stream."""
    starting_timestamp: datetime | None = None
    """From the first message that was appended then or later."""
    starting_offsets_by_timestamp: dict[Place, datetime] | None = None
    """The same with a time for each partition: ``{"orders": {"0": 1700000000000}}``."""
    ending_offsets: str | None = Field(default=None, min_length=1)
    """Where a batch ends: latest (the default) or JSON."""
    ending_timestamp: datetime | None = None
    """A batch ends before the first message that was appended then or later."""
    ending_offsets_by_timestamp: dict[Place, datetime] | None = None
    """The same with a time for each partition."""
    max_offsets_per_trigger: int | None = Field(default=None, ge=1)
    """Messages that one micro-batch reads at most."""
    min_offsets_per_trigger: int | None = Field(default=None, ge=1)
    """A micro-batch waits until so many messages are there, or maxTriggerDelay has passed."""
    max_trigger_delay: timedelta | None = None
    """How long messages wait at most for those that minOffsetsPerTrigger asks for: ``30s``; by
    default ``15m``."""
    min_partitions: int | None = Field(default=None, ge=1, le=100_000)
    """Cut partitions of the topic into at least so many tasks."""
    fail_on_data_loss: bool = True
    """False: go on with what is left when retention was quicker than the reader."""
    group_id: str | None = Field(default=None, min_length=1)
    """The stream's progress shows up as this consumer group, with its lag."""

    @field_validator("starting_timestamp", "ending_timestamp", mode="before")
    @classmethod
    def _moment(cls, value: Any) -> Any:
        if not isinstance(value, str) or not value.isdecimal():
            return value
        try:
            return datetime.fromtimestamp(int(value) / 1000, UTC)
        except (OverflowError, OSError):
            raise ValueError("there is no such time") from None

    @field_validator("starting_offsets_by_timestamp", "ending_offsets_by_timestamp", mode="before")
    @classmethod
    def _moments(cls, value: Any) -> Any:
        return parse_times(value) if isinstance(value, str) else value

    @field_validator("assign", mode="before")
    @classmethod
    def _assignment(cls, value: Any) -> Any:
        return parse_assignment(value) if isinstance(value, str) else value

    @field_validator("subscribe_pattern")
    @classmethod
    def _regular(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"this is no regular expression ({error})") from None
        return value

    @field_validator("max_trigger_delay", mode="before")
    @classmethod
    def _duration(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        found = _DURATION.fullmatch(value.strip().lower())
        if found is None:
            raise ValueError("a duration is a number and a unit, such as 500ms, 30s, 15m or 2h")
        return int(found[1]) * _UNITS[found[2]]

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        ways = {
            name
            for name in ("subscribe", "subscribe_pattern", "assign")
            if getattr(self, name) is not None
        }
        if not ways:
            raise ValueError(
                "option subscribe is missing; subscribePattern or assign may take its place"
            )
        if len(ways) > 1:
            raise ValueError(f"{_listed(ways)} contradict each other")
        for end in ("starting", "ending"):
            given = {
                name
                for name in (f"{end}_offsets", f"{end}_timestamp", f"{end}_offsets_by_timestamp")
                if getattr(self, name)
            }
            if len(given) > 1:
                raise ValueError(f"{_listed(given)} contradict each other")
        if (self.ending_offsets or "").lower() == "earliest":
            raise ValueError("endingOffsets cannot be earliest")
        if unknown := [name for name in self.columns or () if name not in COLUMNS]:
            raise ValueError(f"there is no column {unknown[0]}; columns are {', '.join(COLUMNS)}")
        if self.columns is not None and not self.columns:
            raise ValueError("columns is empty; name at least one")
        return self

    @model_validator(mode="after")
    def _few_enough(self) -> Self:
        least, most = self.min_offsets_per_trigger, self.max_offsets_per_trigger
        if least is None and self.max_trigger_delay is not None:
            raise ValueError("maxTriggerDelay is for minOffsetsPerTrigger, and there is none")
        if least is not None and most is not None and least > most:
            raise ValueError("minOffsetsPerTrigger is more than maxOffsetsPerTrigger")
        return self

    def refuse(self, kind: Literal["batch", "stream"]) -> Self:
        """Refuse what only the other kind of reader takes."""
        wrong = {
            "batch": (
                "max_offsets_per_trigger",
                "min_offsets_per_trigger",
                "max_trigger_delay",
                "group_id",
            ),
            "stream": ("ending_offsets", "ending_timestamp", "ending_offsets_by_timestamp"),
        }[kind]
        for name in wrong:
            if getattr(self, name) is not None:
                raise Invalid(f"option {_alias(name)} is not for a {kind}.")
        return self

    def fits(self, topic: str) -> bool:
        """Whether a topic is one of those that a pattern means."""
        pattern = self.subscribe_pattern
        return pattern is not None and re.fullmatch(pattern, topic) is not None


def _alias(name: str) -> str:
    return LogOptions.model_fields[name].alias or name


def _listed(names: set[str]) -> str:
    return " and ".join(sorted(map(_alias, names)))
