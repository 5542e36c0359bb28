"""`serve`: where it listens, and how it ends."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.gateway.nodes import SECRET, bearer

from trunkline import BadRequest, connect
from trunkline.gateway.server import serve
from trunkline.gateway.settings import GatewaySettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.gateway.nodes import OpenNode, Roles

    from trunkline.platform import Platform

SETTINGS = GatewaySettings(jwt_secret=SECRET)


@pytest.fixture
async def platform(gateway_dsn: str) -> AsyncIterator[Platform]:
    async with connect(gateway_dsn) as opened:
        yield opened


async def test_it_listens_inside_its_block_alone(platform: Platform) -> None:
    async with serve(platform, SETTINGS) as (_, address), httpx.AsyncClient() as http:
        assert (await http.get(f"{address}/healthz")).status_code == 200
    async with httpx.AsyncClient() as http:
        with pytest.raises(httpx.ConnectError):
            await http.get(f"{address}/healthz")


async def test_it_listens_on_ipv6_too(platform: Platform) -> None:
    try:
        async with (
            serve(platform, SETTINGS, host="::1") as (_, address),
            httpx.AsyncClient() as http,
        ):
            assert (await http.get(f"{address}/healthz")).status_code == 200
    except BadRequest:
        pytest.skip("there is no IPv6 here")


@pytest.mark.parametrize("host", ["nowhere.invalid", "x" * 300, "256.0.0.1", "\ud800"])
async def test_a_place_that_is_not_there_is_refused(platform: Platform, host: str) -> None:
    with pytest.raises(BadRequest, match="cannot listen"):
        async with serve(platform, SETTINGS, host=host):
            pass


async def test_a_port_in_use_is_refused(platform: Platform) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(BadRequest, match="cannot listen"),
    ):
        async with serve(platform, SETTINGS, port=taken.getsockname()[1]):
            pass


@pytest.mark.parametrize(
    "origin", ["shop.example", "https://shop.example/", "https://", "", "null"]
)
async def test_an_origin_that_is_none_is_refused(platform: Platform, origin: str) -> None:
    with pytest.raises(BadRequest, match="origin"):
        async with serve(platform, SETTINGS, cors=[origin]):
            pass


@pytest.mark.usefixtures("books")
async def test_a_stop_ends_what_is_followed(start: OpenNode, roles: Roles) -> None:
    node = await start()
    async with (
        serve(node.platform, SETTINGS) as (gateway, address),
        httpx.AsyncClient(base_url=address) as http,
        http.stream("GET", "/v1/live/books", headers=bearer(roles.member)) as answer,
    ):
        assert answer.status_code == 200
        async with asyncio.timeout(3):
            await gateway.stop(2)
            await answer.aread()


@pytest.mark.usefixtures("books")
async def test_for_trying_it_everybody_is_whom_it_connects_as(start: OpenNode) -> None:
    node = await start(jwt_secret=None, insecure=True)
    async with node.follow("/v1/live/books") as followed:
        await followed.frame()
        node.write("insert into books values (1)")

        assert (await followed.event()).json["key"] == {"id": 1}
