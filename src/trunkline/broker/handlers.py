"""`Handler`: a function of the user's and everything that was said about it when it was registered.

What cannot work is refused here, when the program starts, and not when the first event comes.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import psycopg
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from trunkline.broker.conditions import as_text
from trunkline.broker.delivered import Delivered
from trunkline.broker.invocation import AtWork, invoke
from trunkline.broker.models import Event
from trunkline.broker.topics import topics_sql
from trunkline.core.calls import as_json
from trunkline.core.errors import Invalid
from trunkline.core.unread import Unread

Pattern = str | Sequence[str] | None
Condition = str | Mapping[str, Any] | None
Split = Callable[[Delivered], Any]

ORDERINGS = ("strict", "skip")
RETRY = (60.0, 300.0)
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_LARGEST_BATCH = 100_000
_LONGEST_DELAY = 1000 * 365 * 86_400.0  # seconds
_LONGEST_ERRORS = 3  # of a payload that does not fit, how many faults are named


class Unfit(Exception):
    """The payload is not what the handler asked for; trying again would not help."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """How the parameters of a function are filled."""

    payload: TypeAdapter[Any] | None
    """Validates the payload for the first parameter; None when it takes the event."""
    event: str | None
    """A further parameter that takes the event."""
    transaction: str | None
    """The parameter that takes the connection whose transaction commits the position."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A registered handler."""

    function: Callable[..., Any]
    name: str
    group: str
    condition: str | None
    """As `broker_subscribe` takes it; None asks for every event."""
    params: Mapping[str, Any]
    retry: tuple[float, ...]
    timeout: float
    batch: int
    split_by: Split | None
    ordering: str
    from_time: datetime | None
    from_position: int | None
    arguments: Arguments
    is_async: bool
    at_work: AtWork
    """Its calls in this process that have not ended."""

    @property
    def takes_json_text(self) -> bool:
        """Whether its events have payload and metadata as JSON in a text."""
        return False

    @property
    def keeps_batches(self) -> bool:
        """Whether a batch is written down before it is handled, and is the same after a crash."""
        return False

    @property
    def takes_transaction(self) -> bool:
        """Whether effect and position are committed together."""
        return self.arguments.transaction is not None

    def delay_after(self, attempts: int) -> float | None:
        """Seconds to wait after so many failures; None when that was the last one."""
        return self.retry[attempts - 1] if attempts <= len(self.retry) else None

    def split(self, events: Sequence[Delivered]) -> list[list[Delivered]]:
        """The calls that a batch is made into, in the order of their first events."""
        if self.split_by is None:
            return [list(events)] if events else []
        parts: dict[Any, list[Delivered]] = {}
        for event in events:
            parts.setdefault(self.split_by(event), []).append(event)
        return list(parts.values())

    def batches(self, events: Sequence[Delivered]) -> list[Sequence[Delivered]]:
        """The batches that may be made of events by now, if they are written down."""
        return [events[: self.batch]]

    def fitted(self, event: Event) -> Any:
        """What the first parameter gets for an event; `Unfit` when the payload does not fit."""
        for part in (event.payload, event.metadata):
            if isinstance(part, Unread):
                raise Unfit(f"Python cannot hold the JSON of event {event.event_id}: {part.reason}")
        if self.arguments.payload is None:
            return event
        fit = self.arguments.payload
        try:
            with suppress(ValidationError):
                return fit.validate_python(event.payload)
            # a strict model takes a text for a time where it knows that it reads JSON
            return fit.validate_json(json.dumps(event.payload))
        except ValidationError as error:
            raise Unfit(_faults(error, event)) from None

    def is_busy_with(self, events: Iterable[Delivered]) -> bool:
        """Whether a call for the key of one of these events goes on after its time."""
        return self.at_work.has(map(_about, events))

    async def invoke(self, call: Callable[[], Any], events: Sequence[Delivered]) -> None:
        """Make a call of the function for these events; `Failed` says how it failed."""
        await invoke(
            call,
            is_async=self.is_async,
            timeout=self.timeout,
            at_work=self.at_work,
            about=map(_about, events),
        )

    def call(
        self,
        events: Sequence[Event],
        fitted: Sequence[Any],
        transaction: psycopg.AsyncConnection[Any] | None,
    ) -> Callable[[], Any]:
        """The call of the function for these events, ready to be made."""
        extra: dict[str, Any] = {}
        if self.arguments.event is not None:
            extra[self.arguments.event] = list(events) if self.batch > 1 else events[0]
        if self.arguments.transaction is not None:
            extra[self.arguments.transaction] = transaction
        first = list(fitted) if self.batch > 1 else fitted[0]
        return functools.partial(self.function, first, **extra)


def make(
    function: Callable[..., Any],
    pattern: Pattern = None,
    *,
    group: str,
    condition: Condition = None,
    params: Mapping[str, Any] | None = None,
    name: str | None = None,
    retry: Sequence[float] = RETRY,
    timeout: float = 30.0,
    batch: int = 1,
    split_by: Split | None = None,
    ordering: str = "strict",
    from_time: datetime | None = None,
    from_position: int | None = None,
    names: Mapping[str, Any] | None = None,
) -> Handler:
    """Check what was said about a function; ``names`` are those its annotations may use."""
    called = name if name is not None else _name_of(function)
    label = f'handler "{called}"'
    function = _plain(label, function)
    if not all(isinstance(each, str) and each for each in (called, group)):
        raise Invalid(f"{label} needs a group and a name; got group {group!r}, name {called!r}.")
    if ordering not in ORDERINGS:
        raise Invalid(f'{label}: ordering is "strict" or "skip", got {ordering!r}.')
    if not isinstance(batch, int) or not 1 <= batch <= _LARGEST_BATCH:
        raise Invalid(f"{label}: batch is 1 to {_LARGEST_BATCH} events, got {batch!r}.")
    if not isinstance(timeout, int | float) or not timeout > 0:
        raise Invalid(f"{label}: timeout is a number of seconds above 0, got {timeout!r}.")
    if not isinstance(params, Mapping | None):
        raise Invalid(f"{label}: params are a dict, got {params!r}.")
    as_json(dict(params or {}), of="params")
    if split_by is not None and not callable(split_by):
        raise Invalid(f"{label}: split_by is a function of an event, got {split_by!r}.")
    if not isinstance(from_time, datetime | None):
        raise Invalid(f"{label}: from_time is a datetime, got {from_time!r}.")
    if not isinstance(from_position, int | None):
        raise Invalid(f"{label}: from_position is the number of a position, got {from_position!r}.")
    if from_time is not None and from_position is not None:
        raise Invalid(f"{label}: say from_time or from_position, not both.")
    return Handler(
        function=function,
        name=called,
        group=group,
        condition=condition_text(label, pattern, condition),
        params=dict(params or {}),
        retry=_delays(label, retry),
        timeout=float(timeout),
        batch=batch,
        split_by=split_by,
        ordering=ordering,
        from_time=from_time,
        from_position=from_position,
        arguments=_arguments(label, function, batch=batch, names=names or {}),
        is_async=_is_async(label, function),
        at_work=AtWork(),
    )


def _about(event: Delivered) -> str | int:
    """What no two calls may be about at once: the key of an event, or else the event."""
    return event.event_id if event.key is None else event.key


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", "")
    if not name or "<lambda>" in name:
        raise Invalid(
            "a handler has a name that stays the same when the program starts again.",
            hint="Give a lambda or an object one: @app.on(..., name=...).",
        )
    return str(name)


def _plain(label: str, function: Any) -> Any:
    """What a decorator above ``@staticmethod`` is given cannot be looked at as a function can."""
    if isinstance(function, classmethod):
        raise Invalid(
            f"{label} is a classmethod, whose class is not there yet.",
            hint="Make it a staticmethod, or register it below the class: app.on(...)(Class.name).",
        )
    return function.__func__ if isinstance(function, staticmethod) else function


def _delays(label: str, retry: Sequence[float]) -> tuple[float, ...]:
    fits = isinstance(retry, Sequence) and not isinstance(retry, str | bytes | bytearray)
    if not fits or any(
        not isinstance(delay, int | float) or not 0 <= delay <= _LONGEST_DELAY for delay in retry
    ):
        raise Invalid(
            f"{label}: retry is a list of seconds to wait before each further try, none of them"
            f" negative or above 1000 years, got {retry!r}.",
            hint="[] is no further try: what fails is a dead letter at once.",
        )
    return tuple(float(delay) for delay in retry)


def condition_text(label: str, pattern: Pattern, condition: Condition) -> str | None:
    """Pattern and condition as one condition in the form that `broker_subscribe` takes."""
    if condition is not None and not isinstance(condition, str | Mapping):
        raise Invalid(f"{label}: a condition is a dict or SQL, got {condition!r}.")
    if pattern is not None:
        several = isinstance(pattern, Iterable) and not isinstance(pattern, str | Mapping)
        patterns: list[Any] = list(pattern) if several else [pattern]
        if not patterns or not all(isinstance(each, str) and each for each in patterns):
            raise Invalid(f"{label}: a pattern is a topic or a list of topics, got {pattern!r}.")
    if isinstance(condition, str) and condition.lstrip().startswith("{"):
        try:
            condition = json.loads(condition)
        except ValueError:
            raise Invalid(f"{label}: its condition looks like JSON but is not.") from None
    if isinstance(condition, str):
        if pattern is None:
            return condition
        return f"({topics_sql(patterns)}) and ({condition}\n)"
    parts = [{"topic": pattern if isinstance(pattern, str) else patterns}] if pattern else []
    parts += [dict(condition)] if condition else []
    if not parts:
        return None
    return as_text(parts[0] if len(parts) == 1 else {"and": parts})


def _is_async(label: str, function: Callable[..., Any]) -> bool:
    if not callable(function):
        raise Invalid(f"{label} is not a function, but {function!r}.")
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    if not inspect.isroutine(inner):
        inner = type(inner).__call__
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise Invalid(
            f"{label} is a generator, which does nothing when it is called.",
            hint="Leave the yield out.",
        )
    return inspect.iscoroutinefunction(inner)


def _arguments(
    label: str, function: Callable[..., Any], *, batch: int, names: Mapping[str, Any]
) -> Arguments:
    signature = _signature(label, function, names)
    first: inspect.Parameter | None = None
    event = transaction = None
    for parameter in signature.parameters.values():
        if transaction is None and _is_connection(parameter):
            transaction = parameter.name
        elif first is None and parameter.kind in _BY_PLACE:
            first = parameter
        elif event is None and _is_event(_element(parameter.annotation) or parameter.annotation):
            event = parameter.name
        elif parameter.default is parameter.empty and parameter.kind not in _ANY_NUMBER:
            raise Invalid(
                f'{label}: there is no value for its parameter "{parameter.name}".',
                hint="It may take the event or its payload first, a psycopg.AsyncConnection,"
                " and an Event.",
            )
    if first is None:
        raise Invalid(f"{label} takes no event.", hint="Its first parameter is the event.")
    if first.name == "self":
        raise Invalid(
            f"{label} is a method without an object.",
            hint="Register it where the object is: app.on(...)(object.method).",
        )
    if transaction is not None and not _is_async(label, function):
        raise Invalid(f"{label} takes the transaction.", hint="Make it an async function.")
    return Arguments(_payload(label, first, batch=batch), event, transaction)


def _signature(
    label: str, function: Callable[..., Any], names: Mapping[str, Any]
) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True, locals=dict(names))
    except NameError as error:
        raise Invalid(f"{label}: an annotation cannot be understood: {error}.") from None
    except (TypeError, ValueError) as error:
        raise Invalid(f"{label} has no signature: {error}.") from None


def _is_connection(parameter: inspect.Parameter) -> bool:
    return parameter.name == "transaction" or _is(psycopg.AsyncConnection, parameter.annotation)


def _is_event(annotation: Any) -> bool:
    return _is(Event, annotation)


def _is(wanted: type, annotation: Any) -> bool:
    """Whether an annotation says ``wanted``, perhaps annotated further, perhaps or None."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is(wanted, parts[0])
    if origin in (Union, UnionType):
        return all(part is NoneType or _is(wanted, part) for part in parts)
    found = origin or annotation
    return inspect.isclass(found) and issubclass(found, wanted)


def _element(annotation: Any) -> Any:
    """What a list is a list of; None for what is no list."""
    if annotation is list or get_origin(annotation) in (list, Sequence):
        return (get_args(annotation) or (Any,))[0]
    return None


def _payload(label: str, first: inspect.Parameter, *, batch: int) -> TypeAdapter[Any] | None:
    """The validator for the annotation of the first parameter."""
    wanted = first.annotation
    if wanted is first.empty or wanted is Any:
        return None
    is_list = _element(wanted) is not None
    if is_list != (batch > 1):
        takes = "a list of events" if batch > 1 else "one event"
        raise Invalid(
            f'{label} is called with {takes}, but its parameter "{first.name}" is {wanted}.',
            hint="batch=1 gives one event, batch above 1 a list.",
        )
    wanted = _element(wanted) or wanted
    if wanted is Any or _is_event(wanted):
        return None
    try:
        return TypeAdapter(wanted)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        reason = str(error).splitlines()[0]
        raise Invalid(
            f"{label}: a payload cannot be made into {wanted!r}: {reason}",
            hint="Annotate with Event, a pydantic model or a dataclass.",
        ) from None


def _faults(error: ValidationError, event: Event) -> str:
    """What is wrong with a payload, in one line."""
    found = error.errors(include_url=False, include_context=False)
    named = [
        f"{'.'.join(map(str, fault['loc'])) or 'payload'}: {fault['msg']}"
        for fault in found[:_LONGEST_ERRORS]
    ]
    if len(found) > _LONGEST_ERRORS:
        named.append(f"and {len(found) - _LONGEST_ERRORS} more")
    return f"the payload of event {event.event_id} does not fit {error.title}: {'; '.join(named)}"
