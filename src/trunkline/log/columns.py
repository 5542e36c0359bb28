"""What people pass to `append`, brought into columns: values, keys, headers.

One message, many, `Outgoing` values, or Arrow; whatever does not fit is an `Invalid` that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trunkline.core.errors import Invalid
from trunkline.core.words import counted
from trunkline.log.batches import Codec, PackedBatch, pack, pack_arrow
from trunkline.log.models import Outgoing

_ONE = (bytes, bytearray, memoryview, str, Outgoing)
_READY = {bytes, type(None)}


@dataclass(frozen=True)
class Columns:
    """Messages to append, column by column: lists, or arrays when ``arrow`` is set."""

    values: Any
    keys: Any
    headers: Any
    arrow: bool = False

    @property
    def largest(self) -> int:
        """The length of the longest value."""
        if self.arrow:
            from trunkline.log import arrow

            return arrow.longest("value", self.values)
        return max(self._lengths, default=0)

    @cached_property
    def size(self) -> int:
        """The bytes of all values and keys of lists."""
        return sum(self._lengths) + sum(_lengths(self.keys or ()))

    @cached_property
    def _lengths(self) -> list[int]:
        return _lengths(self.values)

    def key_list(self) -> Sequence[bytes | None]:
        """The keys as a list."""
        if self.arrow:
            from trunkline.log import arrow

            arrow.check_type("key", self.keys)
            return [encode("key", key) for key in self.keys.to_pylist()]
        keys: Sequence[bytes | None] = self.keys
        return keys

    def take(self, indices: list[int]) -> Columns:
        """Some of the messages."""
        return Columns(
            _take(self.values, indices),
            _take(self.keys, indices),
            _take(self.headers, indices),
            arrow=self.arrow,
        )

    def pack(self, codec: Codec) -> PackedBatch:
        """All of them as one record batch."""
        pack_all: Any = pack_arrow if self.arrow else pack
        packed: PackedBatch = pack_all(
            self.values, keys=self.keys, headers=self.headers, codec=codec
        )
        return packed


def columns(messages: Any, keys: Any = None, headers: Any = None) -> Columns:
    """Bring messages into columns of one length that is not 0."""
    make = _from_arrow if is_arrow(messages) else _from_plain
    found = make(messages, keys, headers)
    n = len(found.values)
    if n == 0:
        raise Invalid("the batch is empty.", hint="Append at least one message.")
    for name, column in (("keys", found.keys), ("headers", found.headers)):
        if column is not None and len(column) != n:
            came = counted(len(column), name.removesuffix("s"))
            raise Invalid(f"{counted(n, 'message')} came with {came}.")
    return found


def keys_of(messages: Any, key: Any, keys: Any) -> Any:
    """The keys of messages, where ``key`` is that of the only one."""
    if key is None:
        return keys
    if keys is not None:
        raise Invalid("key and keys say two things.", hint="key is for one message.")
    if messages is not None and not isinstance(messages, _ONE):
        raise Invalid(
            f"key is for one message, got {type(messages).__name__}.",
            hint="Give keys: one for each message.",
        )
    return [key]


def encode(name: str, value: Any) -> bytes | None:
    """Text becomes UTF-8; everything but bytes and text is refused."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise Invalid(f"a {name} must be bytes or Unicode text, got {value!r:.80}.") from None
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise Invalid(
        f"a {name} is bytes, text or None, got {type(value).__name__}.",
        hint="Encode it first, for example with json.dumps().",
    )


def is_arrow(messages: Any) -> bool:
    """Tell Arrow data without importing Arrow."""
    return type(messages).__module__.partition(".")[0] == "pyarrow"


def _from_plain(messages: Any, keys: Any, headers: Any) -> Columns:
    if messages is None or isinstance(messages, _ONE):
        messages = [messages]
        keys = [keys] if isinstance(keys, _ONE) else keys
        headers = [headers] if isinstance(headers, Mapping) else headers
    if isinstance(messages, Mapping) or not isinstance(messages, Iterable):
        raise Invalid(
            f"a message is bytes or text, got {type(messages).__name__}.",
            hint="Encode it first, for example with json.dumps(). Several messages are a list.",
        )
    messages = _list("messages", messages)
    if any(issubclass(kind, Outgoing) for kind in set(map(type, messages))):
        if keys is not None or headers is not None:
            raise Invalid("keys and headers are given twice: in the messages and beside them.")
        wholes = [
            message if isinstance(message, Outgoing) else Outgoing(message) for message in messages
        ]
        messages = [whole.value for whole in wholes]
        keys = _unless_empty([whole.key for whole in wholes])
        headers = _unless_empty([whole.headers for whole in wholes])
    return Columns(
        _encoded("value", messages),
        None if keys is None else _encoded("key", _list("keys", keys)),
        None if headers is None else _list("headers", headers),
    )


def _encoded(name: str, column: Sequence[Any]) -> list[bytes | None]:
    if set(map(type, column)) <= _READY:
        return [*column]
    return [encode(name, cell) for cell in column]


def _from_arrow(messages: Any, keys: Any, headers: Any) -> Columns:
    if hasattr(messages, "column_names"):
        names = messages.column_names
        if "value" not in names:
            raise Invalid(f'the table needs a column "value", it has: {", ".join(names)}.')
        for name in ("value", "key", "headers"):
            if names.count(name) > 1:
                raise Invalid(f'the table has {names.count(name)} columns "{name}".')
        for name, given in (("key", keys), ("headers", headers)):
            if given is not None and name in names:
                raise Invalid(f'"{name}" is given twice: in the table and beside it.')
        keys = messages.column("key") if "key" in names else keys
        headers = messages.column("headers") if "headers" in names else headers
        messages = messages.column("value")
    elif not hasattr(messages, "null_count"):
        kind = type(messages).__name__
        raise Invalid(f"messages are an Arrow {kind}, expected an array or a table.")
    if keys is not None and not is_arrow(keys):
        import pyarrow as pa

        keys = pa.array([encode("key", key) for key in _list("keys", keys)], pa.binary())
    if headers is not None and not is_arrow(headers):
        headers = _list("headers", headers)
    return Columns(messages, keys, headers, arrow=True)


def _list(name: str, column: Any) -> Sequence[Any]:
    if isinstance(column, (*_ONE, Mapping)) or not isinstance(column, Iterable):
        raise Invalid(
            f"{name} came as {type(column).__name__}, expected a list.",
            hint="Pass one message, or a list of them; keys and headers are lists beside it.",
        )
    return column if isinstance(column, Sequence) else list(column)


def _lengths(column: Sequence[bytes | None]) -> list[int]:
    try:
        return [*map(len, column)]  # type: ignore[arg-type]
    except TypeError:  # there is a None in it, which few columns have
        return [*map(len, filter(None, column))]


def _unless_empty(column: list[Any]) -> list[Any] | None:
    return None if all(cell is None for cell in column) else column


def _take(column: Any, indices: list[int]) -> Any:
    if column is None:
        return None
    return column.take(indices) if is_arrow(column) else [column[index] for index in indices]
