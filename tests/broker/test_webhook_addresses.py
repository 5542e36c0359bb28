"""Webhooks go to public addresses only: each connection is checked where it is made."""

from __future__ import annotations

import ipaddress
import random
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import httpcore
import pytest
from tests.broker.receiving import receiving, sending
from tests.fixtures.asking import ask, call, refused

from trunkline.broker.addresses import Forbidden, GuardedBackend, is_public
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.broker.receiving import Receiver
    from tests.fixtures.asking import Session

PUBLIC = "93.184.215.14"
# Where the rule changes: the first and the last address of each, and those beside them.
EDGES = [
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32"),
    *("169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24"),
    *("192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4"),
    *("::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2000::/3", "2001::/23"),
    *("2001:db8::/32", "2002::/16", "3fff::/20", "fc00::/7", "fe80::/10", "ff00::/9"),
]


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


@contextmanager
def refusing(said: str) -> Iterator[None]:
    """Expect a refusal with these words."""
    with refused("TL422") as error:
        yield
    assert said in str(error.value)


def public(session: Session, address: str) -> bool:
    """Whether both the sender and SQL take an address for a public one: they must agree."""
    query = "select trunkline._webhook_public(%s::inet)"
    found: bool = ask(session, query, [address.partition("%")[0]])
    assert is_public(address) is found
    return found


@pytest.mark.parametrize("address", [PUBLIC, "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8"])
def test_public_addresses_are_public(session: Session, address: str) -> None:
    assert public(session, address)


def test_sender_and_sql_have_the_same_rule_for_addresses(session: Session) -> None:
    chance = random.Random(5)
    edges = [ipaddress.ip_network(each)[place] for each in EDGES for place in (0, -1)]
    for edge in edges:
        for near in (edge, *(edge + step for step in (-1, 1) if int(edge) + step > 0)):
            public(session, str(near))
    for _ in range(300):
        public(session, str(ipaddress.IPv4Address(chance.getrandbits(32))))
        high = chance.choice([0x2001, 0x2002, 0x2606, 0x64, 0, 0xFE80, chance.getrandbits(16)])
        public(session, str(ipaddress.IPv6Address(high << 112 | chance.getrandbits(112))))


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
def test_what_only_we_can_reach_is_not_public_also_when_it_is_wrapped(
    session: Session, address: str
) -> None:
    assert not public(session, address)


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "169.254.169.254.",
        "2852039166",
        "0xA9FEA9FE",
        "0xa9.254.0xa9fe",
        "0251.0376.0251.0376",
        "025177524776",
        "169.254.43518",
        "127.1",
        "0",
        "0x7f.1",
        "localhost",
        "LOCALHOST.",
        "api.localhost",
        "[::1]",
        "[::]",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::1]",
        "[fd00:ec2::254]",
    ],
)
def test_a_webhook_to_an_address_of_our_own_is_refused_when_it_is_added(
    session: Session, host: str
) -> None:
    for url in (f"http://{host}/latest", f"https://{host}:8080", f"http://{host}?a=b"):
        with refusing("not a public address"):
            call(session, "broker_webhook_add", group_name="g", url=url)


@pytest.mark.parametrize(
    "url",
    [
        "http://256.1.1.1/",
        "http://1.2.3.4.5/",
        "http://08.8.8.8/",
        "http://99999999999/",
        "http://[1::2::3]/",
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://127.0.0.1%31/",
        "http://%31%36%39.254.169.254/",
        "http://me@169.254.169.254/",
        "http://shop.test@169.254.169.254/",
        "http://shop.test:80@169.254.169.254/",
        "http://\N{FULLWIDTH DIGIT ONE}69.254.169.254/",
        "http://shop.test\\@169.254.169.254/",
    ],
)
def test_a_url_whose_host_has_two_readings_is_refused(session: Session, url: str) -> None:
    with refused("TL422"):
        call(session, "broker_webhook_add", group_name="g", url=url)


@pytest.mark.parametrize(
    "host", [PUBLIC, "8.8.8.8.", "134744072", "shop.test", "0x7f.shop.test", "[2606:2800:220:1::1]"]
)
def test_public_addresses_and_names_are_accepted(session: Session, host: str) -> None:
    call(session, "broker_webhook_add", group_name="g", url=f"https://{host}/hook")


def test_private_addresses_are_accepted_where_settings_allow_them(session: Session) -> None:
    def add(host: str) -> None:
        call(session, "broker_webhook_add", group_name="g", url=f"http://{host}/hook")

    config = "select trunkline.config_set(%s, %s)"
    ask(session, config, ["broker.webhook_networks", "{10.0.3.0/24,fd00:1::/64}"])
    add("10.0.3.7")
    add("[fd00:1::7]")
    with refusing("not a public address"):
        add("10.0.4.7")
    ask(session, config, ["broker.webhook_private", "true"])
    add("10.0.4.7")
    with refusing("takes a value of type"):
        ask(session, config, ["broker.webhook_networks", "{10.0.3.0/99}"])


def test_only_hosts_in_the_list_are_accepted_where_there_is_one(session: Session) -> None:
    def add(host: str) -> None:
        call(session, "broker_webhook_add", group_name="g", url=f"https://{host}/hook")

    hosts = "{Hooks.test,*.partner.test,8.8.8.8}"
    ask(session, "select trunkline.config_set('broker.webhook_hosts', %s)", [hosts])
    for host in ("hooks.test", "HOOKS.test.", "a.partner.test", "b.a.PARTNER.test", "8.8.8.8"):
        add(host)
    for host in ("partner.test", "evilpartner.test", "hooks.test.evil.test", "8.8.4.4"):
        with refusing("broker.webhook_hosts"):
            add(host)


async def test_the_sender_obeys_lists_of_hosts_and_networks() -> None:
    seen = ToLoopback()

    def guard(answer: str, **given: list[str]) -> GuardedBackend:
        return GuardedBackend(Names([answer]), private=False, inner=seen, **given)

    with receiving() as receiver:
        port = int(receiver.url.split(":")[2].split("/")[0])
        allowed = guard("10.0.3.7", networks=["10.0.3.0/24"], hosts=["*.shop.test"])
        await (await allowed.connect_tcp("a.shop.test", port)).aclose()
        with pytest.raises(Forbidden, match="webhook_hosts"):
            await allowed.connect_tcp("shop.test", port)
        with pytest.raises(Forbidden, match="not a public address"):
            await guard("10.0.4.7", networks=["10.0.3.0/24"]).connect_tcp("a.test", port)
    assert seen.asked == ["10.0.3.7"]


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
    url = receiver.url.replace("127.0.0.1", "home.test")
    async with sending(clean_dsn, resolve=Names(["127.0.0.1"])) as (tl, webhooks):
        refused = webhooks.sent.wait(lambda sent: sent.error is not None)
        await tl.broker.webhook_add("g", url, retry=[])
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
