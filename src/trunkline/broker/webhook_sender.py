"""`WebhookSender`: posts the events of one endpoint and judges the answers.

2xx is done. 410 pauses the webhook. 422 is a dead letter at once. 429 and 503 with ``Retry-After``
leave the endpoint alone for that long. Everything else has failed and is tried again: redirects,
which are not followed, silence beyond the timeout, and whatever goes wrong on the way.

Every endpoint has connections of its own, so one that hangs takes nothing from others. Proxies of
the environment are not used: they would connect to addresses that nobody checked.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from trunkline.broker import webhook_messages as messages
from trunkline.broker.addresses import Forbidden
from trunkline.broker.connections import Connections
from trunkline.broker.invocation import Failed, Withdrawn
from trunkline.core.notes import storable

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

    import httpcore

    from trunkline.broker.circuit import Circuit
    from trunkline.broker.delivered import Delivered
    from trunkline.broker.endpoints import Endpoint, Rules
    from trunkline.broker.webhook_messages import Message

_EXCERPT = 1_000  # bytes of an answer that are kept; not many more are read
_LONGEST_REST = 86_400.0  # seconds that an endpoint may ask for
_SHORTEST_STRUCK_OUT = 6  # characters; shorter values of headers are no secrets


@dataclass(frozen=True, slots=True)
class Answer:
    """What an endpoint said; without a status, why it said nothing."""

    status: int | None
    excerpt: str | None = None
    rest: float | None = None
    trouble: str | None = None

    @property
    def error(self) -> str | None:
        """What is wrong with it, None when nothing is."""
        if self.status is None:
            return self.trouble
        if 200 <= self.status < 300:
            return None
        if 300 <= self.status < 400:
            return f"HTTP {self.status}: redirects are not followed"
        return f"HTTP {self.status}: {self.excerpt}" if self.excerpt else f"HTTP {self.status}"


@dataclass(frozen=True, slots=True)
class Sent:
    """One attempt, for the log."""

    webhook: int
    at: datetime
    message: str
    event_ids: list[int]
    attempt: int
    status: int | None
    milliseconds: int
    error: str | None
    answer: str | None

    def entry(self) -> dict[str, Any]:
        """As the log takes it."""
        return {name: getattr(self, name) for name in self.__slots__}


class WebhookSender:
    """Posts to one endpoint; `post` is the handler."""

    def __init__(
        self,
        endpoint: Endpoint,
        rules: Rules,
        circuit: Circuit,
        *,
        backend: httpcore.AsyncNetworkBackend,
        ssl_context: ssl.SSLContext,
        tell: Callable[[Sent], None],
        gone: Callable[[Endpoint, str], Awaitable[None]],
    ):
        self.endpoint = endpoint
        self.rules = rules
        self._circuit = circuit
        self._tell = tell
        self._gone = gone
        self._stops = False
        self._requests: set[asyncio.Task[Any]] = set()
        self._connections = Connections(
            endpoint.url, backend=backend, ssl_context=ssl_context, excerpt=_EXCERPT
        )

    async def post(self, events: Sequence[Delivered]) -> None:
        """Post events; `Failed` says how it is tried again, `Withdrawn` that it is not for now."""
        message = messages.compose(self.endpoint, self.rules.source, events)
        at, began = datetime.now(UTC), time.monotonic()
        answer = await self._ask(message, at)
        self._tell(
            Sent(
                webhook=self.endpoint.webhook,
                at=at,
                message=message.id,
                event_ids=[event.event_id for event in events],
                attempt=max(event.attempt for event in events),
                status=answer.status,
                milliseconds=round((time.monotonic() - began) * 1000),
                error=answer.error,
                answer=answer.excerpt,
            )
        )
        await self._judge(answer)

    def cut_short(self) -> None:
        """Wait for no answer any more: what is under way is given back."""
        self._stops = True
        for request in self._requests:
            request.cancel()

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def _judge(self, answer: Answer) -> None:
        if answer.error is None:
            self._circuit.succeeded()
        elif answer.status == 410:
            self._circuit.shut()
            await self._gone(self.endpoint, answer.error)
            raise Withdrawn("the endpoint is gone")
        elif answer.status == 422:
            self._circuit.succeeded()
            raise Failed(answer.error, last=True)
        elif answer.status in {429, 503} and answer.rest is not None:
            self._circuit.rest(answer.rest)
            raise Failed(answer.error, wait=answer.rest)
        else:
            self._circuit.failed()
            raise Failed(answer.error)

    async def _ask(self, message: Message, now: datetime) -> Answer:
        timeout, task = self.endpoint.timeout, asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            async with asyncio.timeout(timeout):
                return await self._exchange(message, now)
        except asyncio.CancelledError:
            if self._stops:
                task.uncancel()
                raise Withdrawn("the sender stops") from None
            raise
        except TimeoutError:
            return Answer(None, trouble=f"no answer within {timeout:g} s")
        except Forbidden as error:
            return Answer(None, trouble=f"refused to connect: {error}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the log tells of it
            return Answer(None, trouble=self._struck_out(storable(_told(error))))
        finally:
            self._requests.discard(task)

    async def _exchange(self, message: Message, now: datetime) -> Answer:
        headers, content = messages.request(
            self.endpoint, message, now, gzip_bytes=self.rules.gzip_bytes
        )
        response = await self._connections.post(headers, content)
        rest = _seconds(response.headers.get(b"retry-after", b"").decode("latin-1"), now)
        text = response.beginning.decode(errors="replace")
        return Answer(response.status, self._struck_out(storable(text)) or None, rest)

    def _struck_out(self, text: str) -> str:
        """Without what we keep secret, should an endpoint say it back to us."""
        secrets = [secret.removeprefix("whsec_") for secret, _ in self.endpoint.secrets]
        for value in (*secrets, *self.endpoint.headers.values()):
            if len(value) >= _SHORTEST_STRUCK_OUT:
                text = text.replace(value, "***")
                for shown in range(len(value) - 1, _SHORTEST_STRUCK_OUT - 1, -1):
                    if text.endswith(value[:shown]):  # the rest of it was not read
                        text = f"{text[:-shown]}***"
                        break
        return text


def _seconds(retry_after: str, now: datetime) -> float | None:
    """What ``Retry-After`` asks for: seconds, or a date; None when it makes no sense."""
    text = retry_after.strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return min(float(text[:10]), _LONGEST_REST)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return min(max(0.0, (at - now).total_seconds()), _LONGEST_REST)


def _told(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    said = str(error) or (str(cause) if cause else "")
    return f"{type(error).__name__}: {said}".rstrip(": ")
