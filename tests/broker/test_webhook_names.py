"""Names of webhooks are looked up side by side: a silent name server harms its own names only."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from typing import TYPE_CHECKING

import httpcore
import pytest

from trunkline.broker import resolver as looking_up
from trunkline.broker.addresses import GuardedBackend
from trunkline.broker.resolver import Resolver
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDRESS = "93.184.215.14"


class SilentNames:
    """Name servers of which some are silent until they are told to answer."""

    def __init__(self) -> None:
        self.told = threading.Event()
        self.asked: Counter[str] = Counter()

    def look_up(self, host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        self.asked[host] += 1
        if host.startswith("silent"):
            self.told.wait(30)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ADDRESS, port))]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentNames]:
    silent = SilentNames()
    monkeypatch.setattr(socket, "getaddrinfo", silent.look_up)
    yield silent
    silent.told.set()


async def test_however_many_name_servers_are_silent_other_names_are_looked_up(
    names: SilentNames,
) -> None:
    resolver = Resolver()
    waiting = [asyncio.create_task(resolver(f"silent{n}.test", 443)) for n in range(100)]
    await eventually(lambda: len(names.asked) >= 32)
    async with asyncio.timeout(10):
        assert await resolver("other.test", 443) == [ADDRESS]
    names.told.set()
    assert await asyncio.gather(*waiting) == [[ADDRESS]] * 100
    resolver.close()


async def test_a_name_whose_server_was_silent_takes_no_turn_from_others(
    names: SilentNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking_up, "_AT_ONCE", 1)
    resolver = Resolver()
    first = asyncio.create_task(resolver("silent.test", 443))
    await eventually(lambda: names.asked["silent.test"] == 1)
    assert await resolver("other.test", 443) == [ADDRESS]
    names.told.set()
    await first
    names.told.clear()
    monkeypatch.setattr(looking_up, "_SILENT_AFTER", 30.0)
    again = asyncio.create_task(resolver("silent.test", 443))
    await eventually(lambda: names.asked["silent.test"] == 2)
    async with asyncio.timeout(10):
        assert await resolver("other.test", 443) == [ADDRESS]
    names.told.set()
    assert await again == [ADDRESS]
    resolver.close()


async def test_silent_look_ups_are_bounded_in_number(
    names: SilentNames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking_up, "_AT_ONCE", 2)
    monkeypatch.setattr(looking_up, "_MOST_SILENT", 3)
    monkeypatch.setattr(looking_up, "_SILENT_AFTER", 0.01)
    resolver = Resolver()
    waiting = [asyncio.create_task(resolver(f"silent{n}.test", 443)) for n in range(20)]
    await eventually(lambda: len(names.asked) == 5)
    assert sum(thread.name.startswith("webhook name") for thread in threading.enumerate()) == 5
    names.told.set()
    assert await asyncio.gather(*waiting) == [[ADDRESS]] * 20
    resolver.close()


async def test_who_asks_for_the_same_name_meanwhile_shares_the_look_up(
    names: SilentNames,
) -> None:
    resolver = Resolver()
    asking = [asyncio.create_task(resolver("silent.test", 443)) for _ in range(5)]
    await eventually(lambda: names.asked["silent.test"] == 1)
    asking.pop().cancel()
    names.told.set()
    assert await asyncio.gather(*asking) == [[ADDRESS]] * 4
    assert names.asked == {"silent.test": 1}
    assert await resolver("silent.test", 443) == [ADDRESS]
    assert names.asked == {"silent.test": 2}
    resolver.close()


async def test_a_name_that_cannot_be_looked_up_is_the_trouble_of_whoever_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def look_up(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    guard = GuardedBackend(Resolver(), private=False)
    with pytest.raises(httpcore.ConnectError, match="cannot be resolved"):
        await guard.connect_tcp("nowhere.test", 443)


async def test_a_resolver_that_is_closed_waits_for_nobody(names: SilentNames) -> None:
    resolver = Resolver()
    waiting = asyncio.create_task(resolver("silent.test", 443))
    await eventually(lambda: names.asked["silent.test"] == 1)
    resolver.close()
    async with asyncio.timeout(5):
        await asyncio.wait({waiting})
    assert waiting.cancelled()
