"""Where webhooks may go: addresses are looked up, checked and connected to in one step.

Whoever can add a webhook could otherwise have us ask what only we can reach: the metadata service
of a cloud, a database, ourselves. The check is made for each connection on the very address that is
connected to, so a name that resolves to something else the second time gains nothing.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

import httpcore

from trunkline.broker.network import Network

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Resolve = Callable[[str, int], Awaitable[list[str]]]

# Globally routable by their numbers, but not by what answers there.
_NOT_PUBLIC = [
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # the platform's own address in Azure
        "192.0.0.0/24",  # services of networks; metadata in Oracle's cloud
        "192.88.99.0/24",  # relays from IPv6, retired
        "64:ff9b:1::/48",  # translation to IPv4 inside of a network
        "fec0::/10",  # of a site, before there was fc00::/7
        "3fff::/20",  # for documentation
    )
]
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_TUNNELLED = 0x0000_5EFE  # ISATAP, before the IPv4 address; one bit says whether that is public
_NEXT_AFTER = 2.0  # seconds of silence, then the next address is tried


class Forbidden(Exception):
    """The address is none that webhooks may go to."""


def is_public(text: str) -> bool:
    """Whether an address belongs to the public Internet, also where it wraps another one."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return all(_is_public(each) for each in (address, *_wrapped(address)))


def _is_public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not any(address in network for network in _NOT_PUBLIC)
    )


def _wrapped(address: Address) -> list[Address]:
    """The IPv4 addresses that packets to an IPv6 address may end up at."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    inner: list[Address | None] = [address.sixtofour]
    if address.teredo is not None:
        inner.extend(address.teredo)
    tunnelled = int(address) >> 32 & 0xFDFF_FFFF == _TUNNELLED
    if tunnelled or address in _TRANSLATED or int(address) >> 32 == 0:
        inner.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in inner if each is not None]


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to public addresses only, unless ``private`` ones are allowed."""

    def __init__(
        self,
        resolve: Resolve,
        *,
        private: bool,
        inner: httpcore.AsyncNetworkBackend | None = None,
    ):
        self._resolve = resolve
        self._private = private
        self._inner = inner or Network()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        failure: Exception | None = None
        addresses = await self._allowed(host, port)
        for address in addresses:
            most = timeout if address == addresses[-1] else _NEXT_AFTER
            try:
                return await self._inner.connect_tcp(
                    address, port, most, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError(f"{host} has no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise Forbidden(f"{path} is a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)

    async def _allowed(self, host: str, port: int) -> list[str]:
        try:
            found = await self._resolve(host.strip("[]"), port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from error
        allowed = [address for address in found if self._private or is_public(address)]
        if found and not allowed:
            raise Forbidden(
                f"{host} is {', '.join(found)}, which is not a public address;"
                " see the setting broker.webhook_private"
            )
        return allowed
