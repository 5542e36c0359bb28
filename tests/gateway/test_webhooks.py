"""Webhooks, administered over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.serving import READER, WRITER

from trunkline import Invalid

if TYPE_CHECKING:
    from tests.gateway.serving import Web

PATH = "/v1/broker/webhooks"
URL = "https://shop.example/hook"


async def add(web: Web, group: str, **more: Any) -> dict[str, Any]:
    body = {"group": group, "url": URL, **more}
    found: dict[str, Any] = await web.ask("POST", PATH, json=body, role=WRITER, status=201)
    return found


async def shown(web: Web, group: str, role: str = READER) -> dict[str, Any]:
    (found,) = await web.ask("GET", PATH, params={"group": group}, role=role)
    webhook: dict[str, Any] = found
    return webhook


async def test_a_webhook_is_added_with_all_that_it_can_say(web: Web, fresh: str) -> None:
    answer = await add(
        web,
        fresh,
        condition={"topic": "orders.*"},
        headers={"x-shop": "secret"},
        retry=["5s", "1m"],
        timeout="3s",
        batch=10,
        format="cloudevents",
        concurrency=2,
        ordering="skip",
        sign=True,
    )
    assert answer["secret"].startswith("whsec_")
    found = await shown(web, fresh, role=WRITER)
    assert (found["webhook"], found["url"], found["signatures"]) == (answer["webhook"], URL, 1)
    assert (await shown(web, fresh))["url"] == URL.removesuffix("/hook")  # the rest may be secret
    assert (found["retry"], found["timeout"], found["batch"]) == (["5s", "1m"], "3s", 10)
    assert (found["header_names"], found["format"]) == (["x-shop"], "cloudevents")
    assert "secret" not in str(found["header_names"])


async def test_a_webhook_to_an_address_of_our_own_is_refused_when_it_is_added(
    web: Web, fresh: str
) -> None:
    body = {"group": fresh, "url": "http://[::ffff:a9fe:a9fe]/latest"}
    problem = await web.refused("POST", PATH, 422, json=body, role=WRITER)
    assert "not a public address" in problem["detail"]
    with pytest.raises(Invalid, match="not a public address"):
        await web.platform.broker.webhook_add(fresh, "http://169.254.169.254/latest")


async def test_a_secret_is_rotated_and_told_only_when_it_was_made(web: Web, fresh: str) -> None:
    number = (await add(web, fresh, sign=True))["webhook"]
    path = f"{PATH}/{number}/rotate"
    made = await web.ask("POST", path, json={"sign": True, "overlap": "1h"}, role=WRITER)
    assert made["secret"].startswith("whsec_")
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    assert await web.ask("POST", path, json={"secret": secret}) == {"webhook": number}
    assert (await shown(web, fresh))["signatures"] == 3
    assert "secret" in (await web.refused("POST", path, 422, json={}))["detail"]


async def test_a_webhook_is_paused_resumed_and_removed(web: Web, fresh: str) -> None:
    path = f"{PATH}/{(await add(web, fresh))['webhook']}"
    paused = await web.ask("POST", f"{path}/pause", json={"reason": "moving"}, role=WRITER)
    assert paused == {"changed": True}
    assert (await shown(web, fresh))["paused_because"] == "moving"
    assert await web.ask("POST", f"{path}/pause") == {"changed": False}
    assert await web.ask("POST", f"{path}/resume") == {"changed": True}
    assert await web.ask("GET", f"{path}/log", role=READER) == []
    assert await web.ask("GET", f"{PATH}/log", role=READER) == []
    await web.refused("DELETE", path, 403, role=READER)
    await web.ask("DELETE", path, role=WRITER, status=204)
    await web.refused("DELETE", path, 404)


async def test_a_wrong_webhook_is_refused(web: Web, fresh: str) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"url": "ftp://shop.example"}, "http"),
        ({"url": 7}, "url"),
        ({"secret": "short"}, "secret"),
        ({"secret": "x", "sign": True}, "secret or sign"),
        ({"retry": [5]}, "retry.0"),
        ({"timeout": "soon"}, "timeout"),
        ({"format": "xml"}, "format"),
        ({"condition": "e.colour"}, "colour"),
        ({"header": {}}, "header"),
    ]
    for more, named in wrong:
        body = {"group": fresh, "url": URL, **more}
        problem = await web.refused("POST", PATH, 422, json=body)
        assert named in problem["detail"]
    await web.refused("GET", PATH, 404, params={"group": fresh})
    for verb in ("pause", "resume"):
        await web.refused("POST", f"{PATH}/999999/{verb}", 404)
