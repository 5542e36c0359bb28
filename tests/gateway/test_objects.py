"""Owners, grants and quotas over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.gateway.serving import READER, WRITER

if TYPE_CHECKING:
    from tests.gateway.serving import Web


@pytest.fixture
async def topic(web: Web, fresh: str) -> str:
    """A topic of the owner of the schema."""
    await web.platform.log.create(fresh)
    return fresh


async def test_objects_are_listed_granted_and_revoked(web: Web, topic: str) -> None:
    path = f"/v1/objects/topic:{topic}"
    found = await web.ask("GET", "/v1/objects", params={"kind": "topic"}, role=READER)
    (mine,) = [each for each in found if each["name"] == topic]
    assert mine["grants"]["append"] == ["trunkline_writer"]
    assert mine["may"] == ["read", "consume"]
    body = {"retention": "1s"}
    refused = await web.ask("PATCH", f"/v1/log/{topic}", json=body, role=WRITER, status=403)
    assert f"grant_on('topic:{topic}', 'manage'" in refused["hint"]
    await web.ask("PUT", f"{path}/grants/manage/trunkline_writer", status=204)
    await web.ask("PATCH", f"/v1/log/{topic}", json=body, role=WRITER)
    answer = await web.ask("DELETE", f"{path}/grants/manage/trunkline_writer")
    assert answer == {"revoked": True}
    await web.ask("PATCH", f"/v1/log/{topic}", json=body, role=WRITER, status=403)
    await web.ask("PUT", f"{path}/owner", json={"owner": "trunkline_writer"}, status=204)
    await web.ask("PATCH", f"/v1/log/{topic}", json=body, role=WRITER)


async def test_the_name_of_a_group_has_a_slash(web: Web, topic: str) -> None:
    await web.platform.log.append(topic, b"x")
    claim = {"max_messages": 1, "deadline": "1m"}
    await web.ask("POST", f"/v1/log/{topic}/groups/work/claim", json=claim, role=READER)
    path = f"/v1/objects/topic_group:{topic}/work/grants/manage/trunkline_writer"
    await web.ask("PUT", path, status=204)
    (found,) = [
        each
        for each in await web.ask("GET", "/v1/objects", params={"kind": "topic_group"})
        if each["name"] == f"{topic}/work"
    ]
    assert found["grants"]["manage"] == ["trunkline_writer"]


async def test_a_quota_that_is_used_up_says_when_to_come_back(web: Web, topic: str) -> None:
    await web.ask("PUT", "/v1/quotas/trunkline_writer", json={"bytes_per_second": 10}, status=204)
    try:
        (quota,) = await web.ask("GET", "/v1/quotas", role=READER)
        assert quota == {
            "role": "trunkline_writer",
            "messages_per_second": None,
            "bytes_per_second": 10,
        }
        message = {"messages": [{"value": "x" * 100}]}
        await web.ask("POST", f"/v1/log/{topic}", json=message, role=WRITER, status=201)
        answer = await web.raw("POST", f"/v1/log/{topic}", json=message, role=WRITER)
        assert answer.status_code == 429
        assert 1 <= int(answer.headers["Retry-After"]) <= 10
        assert answer.json()["retry_after"] <= 10
    finally:
        await web.ask("PUT", "/v1/quotas/trunkline_writer", json={}, status=204)
