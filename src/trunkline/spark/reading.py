"""`Reading`: what the readers of every source have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from trunkline.spark import connection

if TYPE_CHECKING:
    from trunkline.spark.options import Options

OptionsT = TypeVar("OptionsT", bound="Options")


class Reading(Generic[OptionsT]):
    """Options, and the database: the driver locates it, tasks are told."""

    stays: ClassVar[tuple[str, ...]] = ()
    """Attributes that do not travel to tasks."""

    def __init__(self, options: OptionsT):
        self._options = options
        self._dsn: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **dict.fromkeys(self.stays), "_dsn": self.dsn}

    @property
    def dsn(self) -> str:
        """Where the database is."""
        if self._dsn is None:
            self._dsn = connection.locate(self._options.dsn)
        return self._dsn
