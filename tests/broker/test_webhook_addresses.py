"""Webhooks go to public addresses only: each connection is checked where it is made."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import httpcore
import pytest
from tests.broker.receiving import receiving, sending
from tests.fixtures.asking import ask, call

from trunkline.broker.addresses import Forbidden, GuardedBackend, is_public
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.broker.receiving import Receiver
    from tests.fixtures.asking import Session

PUBLIC = "93.184.215.14"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with ExitStack() as opened:
        yield opened.enter_context(receiving())


class ToLoopback(httpcore.AsyncNetworkBackend):
    """Takes note of where a connection should go, and lets none leave this machine."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self, host: str, port: int, *given: object
    ) -> httpcore.AsyncNetworkStream:
        self.asked.append(host)
        return await self._inner.connect_tcp("127.0.0.1", port)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class Names:
    """Answers for every name, another answer each time; the last one stays."""

    def __init__(self, *answers: list[str]):
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> list[str]:
        self.asked.append(host)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "168.63.129.16",
        "192.0.0.192",
        "198.18.0.1",
        "192.0.2.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "64:ff9b::127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "fec0::1",
        "feff::1",
        "3fff::1",
        "2001:470::5efe:10.0.0.1",
        "2001:470::200:5efe:169.254.169.254",
    ],
)
def test_what_only_we_can_reach_is_not_public_also_when_it_is_wrapped(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "0x7f.1", "2130706433", "localhost"])
async def test_other_spellings_of_the_loopback_address_are_refused(host: str) -> None:
    from trunkline.broker.resolver import Resolver

    resolver = Resolver()
    try:
        with pytest.raises(Forbidden, match="not a public address"):
            await GuardedBackend(resolver, private=False).connect_tcp(host, 9)
    finally:
        resolver.close()


async def test_of_several_addresses_only_public_ones_are_tried() -> None:
    seen = ToLoopback()
    guard = GuardedBackend(Names(["10.0.0.1", PUBLIC]), private=False, inner=seen)
    with receiving() as receiver:
        port = int(receiver.url.split(":")[2].split("/")[0])
        await (await guard.connect_tcp("mixed.test", port)).aclose()
    assert seen.asked == [PUBLIC]


async def test_an_address_that_is_silent_does_not_keep_us_from_the_next() -> None:
    class SilentFirst(ToLoopback):
        async def connect_tcp(
            self, host: str, port: int, timeout: float | None = None, *given: object
        ) -> httpcore.AsyncNetworkStream:
            if self.asked:
                return await super().connect_tcp(host, port, timeout, *given)
            self.asked.append(host)
            assert timeout is not None  # or it would take as long as it likes
            raise httpcore.ConnectTimeout("silence")

    seen = SilentFirst()
    guard = GuardedBackend(Names([PUBLIC, "8.8.8.8"]), private=False, inner=seen)
    with receiving() as receiver:
        port = int(receiver.url.split(":")[2].split("/")[0])
        await (await guard.connect_tcp("two.test", port)).aclose()
    assert seen.asked == [PUBLIC, "8.8.8.8"]


async def test_a_webhook_to_a_private_address_is_refused_unless_that_is_allowed(
    clean_dsn: str, session: Session, receiver: Receiver
) -> None:
    async with sending(clean_dsn) as (tl, webhooks):
        refused = webhooks.sent.wait(lambda sent: sent.error is not None)
        await tl.broker.webhook_add("g", receiver.url, retry=[])
        await tl.broker.publish("t", 1)
        assert "127.0.0.1, which is not a public address" in (await refused).error
        assert receiver.requests == []
        ask(session, "select trunkline.config_set('broker.webhook_private', 'true')")
        webhooks.wake.set()
        await eventually(lambda: len(call(session, "broker_dead_list")) == 1)
        await tl.broker.dead_retry(group_name="g", handler="webhook:1")
        await eventually(lambda: len(receiver.requests) == 1)


async def test_a_name_that_resolves_to_loopback_the_second_time_is_refused_then(
    clean_dsn: str, receiver: Receiver
) -> None:
    """DNS rebinding: the check and the connection must not each ask for themselves."""
    names = Names([PUBLIC], ["127.0.0.1"])
    seen = ToLoopback()
    url = receiver.url.replace("127.0.0.1", "rebind.test")
    receiver.always = _closing
    async with sending(clean_dsn, resolve=names, backend=seen) as (tl, webhooks):
        await tl.broker.webhook_add("g", url, retry=[])
        await tl.broker.publish("t", 1, key="k")
        await eventually(lambda: len(receiver.requests) == 1)
        assert seen.asked == [PUBLIC]  # it was looked up once, and that answer was connected to
        assert names.asked == ["rebind.test"]
        refused = webhooks.sent.wait(lambda sent: sent.error is not None)
        await tl.broker.publish("t", 2, key="k")
        assert "not a public address" in (await refused).error
    assert seen.asked == [PUBLIC]
    assert receiver.payloads == [1]
    assert receiver.requests[0].headers["host"].startswith("rebind.test:")


def _closing(handler: object) -> None:
    from tests.broker.receiving import answer

    answer(200, connection="close")(handler)  # type: ignore[arg-type]
