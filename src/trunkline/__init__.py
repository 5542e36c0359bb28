"""Everything event-driven on one Postgres, and Spark when it has to go further.

The names are imported when they are first used: the command line answers at once that way.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trunkline.version import __version__

if TYPE_CHECKING:
    from trunkline.core.errors import (
        BadRequest,
        Conflict,
        DatabaseError,
        Forbidden,
        Invalid,
        LeaseLost,
        NotFound,
        PositionTrimmed,
        SchemaMismatch,
        TooLarge,
        TooMany,
        TrunklineError,
        Unavailable,
        UnsupportedCodec,
    )
    from trunkline.log.models import Appended, Delivery, Message, Mode, Outgoing
    from trunkline.platform import Platform, SyncPlatform, connect, connect_sync

__all__ = [
    "Appended",
    "BadRequest",
    "Conflict",
    "DatabaseError",
    "Delivery",
    "Forbidden",
    "Invalid",
    "LeaseLost",
    "Message",
    "Mode",
    "NotFound",
    "Outgoing",
    "Platform",
    "PositionTrimmed",
    "SchemaMismatch",
    "SyncPlatform",
    "TooLarge",
    "TooMany",
    "TrunklineError",
    "Unavailable",
    "UnsupportedCodec",
    "__version__",
    "connect",
    "connect_sync",
]

_HOMES = ("trunkline.core.errors", "trunkline.log.models", "trunkline.platform")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in _HOMES:
            module = import_module(home)
            if hasattr(module, name):
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
