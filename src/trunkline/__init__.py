"""Everything event-driven on one Postgres, and Spark when it has to go further."""

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
from trunkline.version import __version__

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
