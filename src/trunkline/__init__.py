"""Transactional events, topics, change data capture and live queries on Postgres and Spark.

Names are imported on first use, so that the command line starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trunkline.version import __version__

if TYPE_CHECKING:
    from trunkline.app import App
    from trunkline.broker.client import Broker
    from trunkline.broker.delivered import Delivered
    from trunkline.broker.models import Event, NewEvent
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
    from trunkline.kv.parade import Parade
    from trunkline.log.client import Log
    from trunkline.log.consumer import Batch, Consumer
    from trunkline.log.models import Appended, Delivery, Message, Mode, Outgoing, Topic
    from trunkline.log.producer import Producer
    from trunkline.platform import Platform, SyncPlatform, connect, connect_sync

__all__ = [
    "App",
    "Appended",
    "BadRequest",
    "Batch",
    "Broker",
    "Conflict",
    "Consumer",
    "DatabaseError",
    "Delivered",
    "Delivery",
    "Event",
    "Forbidden",
    "Invalid",
    "LeaseLost",
    "Log",
    "Message",
    "Mode",
    "NewEvent",
    "NotFound",
    "Outgoing",
    "Parade",
    "Platform",
    "PositionTrimmed",
    "Producer",
    "SchemaMismatch",
    "SyncPlatform",
    "TooLarge",
    "TooMany",
    "Topic",
    "TrunklineError",
    "Unavailable",
    "UnsupportedCodec",
    "__version__",
    "connect",
    "connect_sync",
]

_HOMES = (
    "trunkline.core.errors",
    "trunkline.log.models",
    "trunkline.log.consumer",
    "trunkline.log.producer",
    "trunkline.log.client",
    "trunkline.broker.models",
    "trunkline.broker.client",
    "trunkline.broker.delivered",
    "trunkline.kv.parade",
    "trunkline.platform",
    "trunkline.app",
)


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
