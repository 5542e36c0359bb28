"""`Reading`: what the readers of every source have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from trunkline.spark import connection

if TYPE_CHECKING:
    from trunkline.spark.options import Options

OptionsT = TypeVar("OptionsT", bound="Options")


class Reading(Generic[OptionsT]):
    """Options, and where the database is."""

    def __init__(self, options: OptionsT):
        self._options = options
        self._dsn: str | None = None

    @property
    def dsn(self) -> str:
        """Where the database is."""
        if self._dsn is None:
            self._dsn = connection.locate(self._options.dsn)
        return self._dsn


class StreamReading(Reading[OptionsT]):
    """The driver of a stream locates the database; tasks are told, and get nothing that is open."""

    stays: ClassVar[tuple[str, ...]] = ("_arrivals",)
    """Attributes that do not travel to tasks."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **dict.fromkeys(self.stays), "_dsn": self.dsn}
