"""What a process says about itself: log lines and metrics.

Loggers are structlog on top of the standard library's ``logging``, all below ``trunkline``: inside
somebody else's program they obey that program's settings, and `configure` sets up a program of our
own. Passwords of DSNs are struck out on the way (`redact`).

Metrics are made on first use and live in a registry of ours; they cost next to nothing when nobody
reads them.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol, TextIO, TypeVar, cast

import prometheus_client
import structlog
from prometheus_client import CollectorRegistry
from structlog.stdlib import BoundLogger, ProcessorFormatter

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from prometheus_client.metrics import MetricWrapperBase
    from structlog.typing import EventDict, Processor

Family = TypeVar(
    "Family", prometheus_client.Counter, prometheus_client.Gauge, prometheus_client.Histogram
)

ROOT = "trunkline"

_STRUCK_OUT = "***"
_URL = re.compile(r"(?P<before>://[^:/@\s]*:)[^/\s]*@")
_PAIR = re.compile(
    r"(?P<before>\b(?:ssl)?password\s*=\s*)(?:'(?:[^'\\]|\\.)*'?|(?:\\.|[^\s&\\\"])+)",
    re.IGNORECASE,
)
_SECRET = re.compile(r"password|secret|token", re.IGNORECASE)


def redact(text: str) -> str:
    """The text with the passwords of DSNs in it struck out."""
    text = _URL.sub(rf"\g<before>{_STRUCK_OUT}@", text)
    return _PAIR.sub(rf"\g<before>{_STRUCK_OUT}", text)


def get_logger(name: str) -> BoundLogger:
    """A logger for a module: ``logger.info("topic made", topic=...)``."""
    logger = structlog.wrap_logger(
        logging.getLogger(name),
        processors=[
            structlog.stdlib.filter_by_level,
            *_event_chain(),
            _readable,
            ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=BoundLogger,
        context_class=dict,
        cache_logger_on_first_use=True,
    )
    return cast("BoundLogger", logger)


def configure(level: str, json: bool | None = None, *, stream: TextIO | None = None) -> None:  # noqa: FBT001
    """Log to standard error: for people on a terminal, as JSON lines elsewhere or when asked."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise Invalid(f"unknown log level {level!r}.", hint="Try debug, info, warning or error.")
    stream = sys.stderr if stream is None else stream
    handler = _Handler(stream)
    as_json = not stream.isatty() if json is None else json
    handler.setFormatter(_formatter(as_json=as_json, colors=stream.isatty()))
    root = logging.getLogger(ROOT)
    root.handlers = [other for other in root.handlers if not isinstance(other, _Handler)]
    root.addHandler(handler)
    root.setLevel(number)
    root.propagate = False
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # we say it, in our words


class _Handler(logging.StreamHandler[TextIO]):
    """Ours, so that `configure` can be called again."""


def _formatter(*, as_json: bool, colors: bool) -> logging.Formatter:
    renderer: Processor
    if as_json:
        renderer = structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    else:
        # Not the pretty tracebacks: they print local variables, and with them anything.
        plain = structlog.dev.plain_traceback
        renderer = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)
    return ProcessorFormatter(
        processors=[ProcessorFormatter.remove_processors_meta, renderer],
        foreign_pre_chain=_event_chain(),
    )


def _event_chain() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redacted,
    ]


class _Event(dict[str, Any]):
    """An event that a formatter without structlog prints as text."""

    _ELSEWHERE = frozenset({"event", "exception", "level", "logger", "timestamp"})

    def __str__(self) -> str:
        pairs = (f"{name}={value}" for name, value in self.items() if name not in self._ELSEWHERE)
        text = " ".join([str(self.get("event", "")), *pairs])
        return f"{text}\n{self['exception']}" if "exception" in self else text


def _readable(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return _Event(event)


def _redacted(_logger: Any, _method: str, event: EventDict) -> EventDict:
    return {
        name: _STRUCK_OUT if _SECRET.search(name) and value else _without_secrets(value)
        for name, value in event.items()
    }


def _without_secrets(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return _redacted(None, "", value)
    if isinstance(value, list | tuple):
        return [_without_secrets(item) for item in value]
    if isinstance(value, BaseException):
        return redact(str(value))
    return value


class Counter(Protocol):
    """What only grows."""

    def inc(self, amount: float = 1, /) -> None: ...


class Gauge(Protocol):
    """What goes up and down."""

    def set(self, value: float, /) -> None: ...
    def inc(self, amount: float = 1, /) -> None: ...
    def dec(self, amount: float = 1, /) -> None: ...


class Histogram(Protocol):
    """What is spread: durations, sizes."""

    def observe(self, amount: float, /) -> None: ...


class Metrics:
    """Metrics by name, made on first use: ``counter("log_appended_messages", topic=topic).inc(n)``.

    A name keeps the kind and the labels that it was first used with.
    """

    def __init__(self, registry: CollectorRegistry | None = None):
        self.registry = CollectorRegistry() if registry is None else registry
        self._families: dict[str, MetricWrapperBase] = {}
        self._making = threading.Lock()

    def counter(self, name: str, /, **labels: str) -> Counter:
        """``trunkline_<name>_total``."""
        return self._metric(prometheus_client.Counter, name, labels)

    def gauge(self, name: str, /, **labels: str) -> Gauge:
        """``trunkline_<name>``."""
        return self._metric(prometheus_client.Gauge, name, labels)

    def histogram(self, name: str, /, **labels: str) -> Histogram:
        """``trunkline_<name>`` with a sum, a count and buckets from 5 ms to 10 s."""
        return self._metric(prometheus_client.Histogram, name, labels)

    def render(self) -> bytes:
        """Everything in Prometheus' text format."""
        return prometheus_client.generate_latest(self.registry)

    def _metric(self, kind: type[Family], name: str, labels: dict[str, str]) -> Family:
        family = self._families.get(name)
        if family is None:
            family = self._make(kind, name, tuple(sorted(labels)))
        if not isinstance(family, kind):
            raise TypeError(f"metric {name} is a {type(family).__name__}, not a {kind.__name__}")
        return family.labels(**labels) if labels else family

    def _make(self, kind: type[Family], name: str, labels: tuple[str, ...]) -> MetricWrapperBase:
        with self._making:
            if name not in self._families:
                self._families[name] = kind(
                    f"{ROOT}_{name}", name.replace("_", " "), labels, registry=self.registry
                )
            return self._families[name]


default = Metrics()
counter = default.counter
gauge = default.gauge
histogram = default.histogram
