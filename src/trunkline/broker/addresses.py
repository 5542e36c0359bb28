"""Where webhooks may go: addresses are looked up, checked and connected to in one step.

Whoever can add a webhook could otherwise have us ask what only we can reach: the metadata service
of a cloud, a database, ourselves. The check is made for each connection on the very address that is
connected to, so a name that resolves to something else the second time gains nothing.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

import httpcore

from trunkline.broker import network

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Network | ipaddress.IPv6Network
    Resolve = Callable[[str, int], Awaitable[list[str]]]

# Not public, or not by what answers there. The SQL function _webhook_public() has the same.
_NOT_PUBLIC = [
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # the platform's own address in Azure
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",  # services of networks; metadata in Oracle's cloud
        "192.0.2.0/24",
        "192.88.99.0/24",  # relays from IPv6, retired
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast and reserved
        "2001::/23",  # Teredo and other protocols
        "2001:db8::/32",
        "2002::/16",  # 6to4: wraps an IPv4 address
        "3fff::/20",  # for documentation
    )
]
_UNICAST = ipaddress.ip_network("2000::/3")
_WRAPPING = [ipaddress.ip_network(network) for network in ("::ffff:0:0/96", "64:ff9b::/96")]
_TUNNELLED = 0x0000_5EFE  # ISATAP, before the IPv4 address; one bit says whether that is public
_NEXT_AFTER = 2.0  # seconds of silence, then the next address is tried


class Forbidden(Exception):
    """The address is none that webhooks may go to."""


def is_public(text: str) -> bool:
    """Whether an address belongs to the public Internet, also where it wraps another one."""
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        wrapped = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if _is_in(address, _WRAPPING):
            return is_public(str(wrapped))
        if int(address) >> 32 & 0xFDFF_FFFF == _TUNNELLED and not is_public(str(wrapped)):
            return False
        if address not in _UNICAST:
            return False
    return not _is_in(address, _NOT_PUBLIC)


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def _is_named(host: str, allowed: Iterable[str]) -> bool:
    """Whether a list of hosts has this one: by name, by ``*.example`` or by ``*``."""
    name = host.strip("[]").rstrip(".").lower()
    wanted = [each.lower() for each in allowed]
    suffixes = tuple(each[1:] for each in wanted if each.startswith("*."))
    return name in wanted or "*" in wanted or name.endswith(suffixes)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to public addresses, to those in ``networks``, or with ``private`` to all.

    With ``hosts`` only to hosts in that list.
    """

    def __init__(
        self,
        resolve: Resolve,
        *,
        private: bool,
        hosts: Sequence[str] = (),
        networks: Iterable[str] = (),
        inner: httpcore.AsyncNetworkBackend | None = None,
    ):
        self._resolve = resolve
        self._private = private
        self._hosts = hosts
        self._networks = [ipaddress.ip_network(each) for each in networks]
        self._inner = inner or network.Network()

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
        if self._hosts and not _is_named(host, self._hosts):
            raise Forbidden(f"{host} is not in the setting broker.webhook_hosts")
        try:
            found = await self._resolve(host.strip("[]"), port)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} cannot be resolved: {error}") from error
        allowed = [address for address in found if self._may_reach(address)]
        if found and not allowed:
            raise Forbidden(
                f"{host} is {', '.join(found)}, which is not a public address;"
                " see the settings broker.webhook_networks and broker.webhook_private"
            )
        return allowed

    def _may_reach(self, address: str) -> bool:
        if self._private or is_public(address):
            return True
        return _is_in(ipaddress.ip_address(address.partition("%")[0]), self._networks)
