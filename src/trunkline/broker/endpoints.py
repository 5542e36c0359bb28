"""Webhooks as values: as they are listed, as the sender needs them, and what was sent. No I/O."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from trunkline.broker.handlers import Arguments, Handler
from trunkline.broker.invocation import AtWork, Failed, Withdrawn, told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    from trunkline.broker.delivered import Delivered
    from trunkline.broker.models import Event

_JITTER = 0.2  # of a wait, up or down
_PATIENCE = 5.0  # seconds beyond the endpoint's timeout until a request counts as stuck


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook in a listing; of secrets and headers only how many, and what they are called."""

    webhook: int
    group_name: str
    url: str
    condition: str | None
    params: dict[str, Any]
    format: str
    signatures: int
    header_names: list[str]
    retry: list[timedelta]
    timeout: timedelta
    batch: int
    concurrency: int
    ordering: str
    waiting: int
    dead: int
    paused_at: datetime | None
    paused_because: str | None
    owner: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class WebhookEntry:
    """One attempt in the log of webhooks."""

    entry: int
    webhook: int
    at: datetime
    message: str
    event_ids: list[int]
    attempt: int
    status: int | None
    milliseconds: int
    error: str | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings that the sender obeys."""

    private: bool
    hosts: list[str]
    networks: list[str]
    gzip_bytes: int
    body_bytes: int
    failures: int
    source: str

    @property
    def reach(self) -> dict[str, Any]:
        """Where webhooks may go, as `GuardedBackend` takes it."""
        return {"private": self.private, "hosts": self.hosts, "networks": self.networks}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a webhook goes and how; what is secret does not show when it is printed."""

    webhook: int
    group_id: int
    group_name: str
    url: str
    format: str
    headers: dict[str, str] = field(repr=False)
    retry: tuple[float, ...]
    timeout: float
    batch: int
    concurrency: int
    ordering: str
    identity: UUID
    secrets: tuple[tuple[str, float | None], ...] = field(repr=False)
    """Each with the time until which it signs; None: for good."""

    @property
    def handler(self) -> str:
        """The handler that it is in its group."""
        return f"webhook:{self.webhook}"

    def signing(self, now: float) -> list[str]:
        """The secrets to sign with, the present one first."""
        return [secret for secret, until in self.secrets if until is None or until > now]


@dataclass(frozen=True, slots=True)
class WebhookHandler(Handler):
    """A handler that is no function of the user's, but posts events."""

    parts: Callable[[Sequence[Delivered]], list[list[Delivered]]]
    """The requests that a batch is made into: their bodies are not too large."""

    @property
    def takes_json_text(self) -> bool:
        """Yes: what goes through unread need not be understood."""
        return True

    def delay_after(self, attempts: int) -> float | None:
        """Around what was asked for, so that what failed together does not return together."""
        delay = Handler.delay_after(self, attempts)
        spread = 1 + _JITTER * (2 * random.random() - 1)  # noqa: S311 - no secret
        return None if delay is None else delay * spread

    @property
    def keeps_batches(self) -> bool:
        """Yes, unless it is one event each: whoever got a batch knows it by its key."""
        return self.batch > 1

    def batches(self, events: Sequence[Delivered]) -> list[Sequence[Delivered]]:
        """What is full, each in as many requests as it needs; or what there is."""
        full = len(events) - len(events) % self.batch or len(events)
        return [
            part
            for first in range(0, full, self.batch)
            for part in self.parts(events[first : min(first + self.batch, full)])
        ]

    async def invoke(self, call: Callable[[], Any], _events: Sequence[Delivered]) -> None:
        """Post; it ends by itself, in time."""
        try:
            await call()
        except (Failed, Withdrawn):
            raise
        except Exception as error:
            raise Failed(told(error)) from error

    def call(
        self, events: Sequence[Event], _fitted: Sequence[Any], _transaction: Any
    ) -> Callable[[], Any]:
        """The post of these events, ready to be made."""
        return partial(self.function, list(events))


def handler_of(
    endpoint: Endpoint,
    post: Callable[..., Any],
    *,
    parts: Callable[[Sequence[Delivered]], list[list[Delivered]]],
) -> WebhookHandler:
    """The handler that a webhook is."""
    return WebhookHandler(
        function=post,
        name=endpoint.handler,
        group=endpoint.group_name,
        condition=None,
        params={},
        retry=endpoint.retry,
        timeout=endpoint.timeout + _PATIENCE,
        batch=endpoint.batch,
        split_by=None,
        ordering=endpoint.ordering,
        from_time=None,
        from_position=None,
        arguments=Arguments(None, None, None),
        is_async=True,
        at_work=AtWork(),
        parts=parts,
    )
