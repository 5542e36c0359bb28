"""Handlers that run elsewhere and ask over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.gateway.serving import READER
from tests.gateway.test_broker import matched, publish, subscribed

if TYPE_CHECKING:
    from tests.gateway.serving import Web


async def delivered(web: Web, topic: str, *payloads: Any, key: str | None = "k") -> None:
    """These events wait for the group of this name, all in one lane."""
    await web.ask("PUT", f"/v1/broker/groups/{topic}", json={"lanes": 1})
    await subscribed(web, topic)
    if payloads:
        await publish(web, topic, *payloads, key=key)
        await matched(web)


async def say(web: Web, group: str, verb: str, status: int = 200, **body: Any) -> Any:
    path = f"/v1/broker/groups/{group}/{verb}"
    return await web.ask("POST", path, json={"lane": 0, **body}, role=READER, status=status)


async def waiting(web: Web, group: str) -> list[dict[str, Any]]:
    path = f"/v1/broker/groups/{group}/read"
    events: list[dict[str, Any]] = (await web.ask("POST", path, role=READER))["events"]
    return events


async def due(web: Web, group: str) -> list[dict[str, Any]]:
    batches: list[dict[str, Any]] = (await say(web, group, "retries", limit=10))["batches"]
    return batches


async def test_what_failed_is_tried_again_until_it_is_done_or_a_dead_letter(
    web: Web, fresh: str
) -> None:
    await delivered(web, fresh, 1, 2, 3, key=None)
    first, second, third = await waiting(web, fresh)
    failed = [second["up_to"], third["up_to"]]
    answer = await say(web, fresh, "fail", deliveries=failed, error="busy", retry_after="0s")
    assert await waiting(web, fresh) == []  # the first is done with it
    (batch,) = await due(web, fresh)
    assert (batch["batch"], batch["attempts"]) == (answer["batch"], 1)
    again = {**second, "errors": batch["events"][0]["errors"]}
    assert again["errors"][0]["error"] == "busy"
    assert batch["events"][0] == {name: each for name, each in again.items() if name != "blocked"}
    settled = {"batch": batch["batch"]}
    await say(web, fresh, "retried", 204, **settled, error="still", retry_after="0s")
    assert (await due(web, fresh))[0]["attempts"] == 2
    await say(web, fresh, "retried", 204, **settled, error="for good")
    letters = (await web.ask("GET", f"/v1/broker/dead?group={fresh}"))["letters"]
    assert [(each["event_id"], each["attempts"]) for each in letters] == [
        (each["event_id"], 3) for each in (second, third)
    ]
    assert first["event_id"] not in {each["event_id"] for each in letters}
    await web.ask("POST", f"/v1/broker/dead/{letters[0]['retry']}/retry")
    (once_more,) = await due(web, fresh)
    await say(web, fresh, "retried", 204, batch=once_more["batch"])
    assert await due(web, fresh) == []
    refused = {"lane": 0, "batch": once_more["batch"]}
    await web.refused("POST", f"/v1/broker/groups/{fresh}/retried", 404, json=refused)


async def test_events_of_a_key_that_failed_wait_parked_and_come_in_order(
    web: Web, fresh: str
) -> None:
    await delivered(web, fresh, 1, 2)
    first, _ = await waiting(web, fresh)
    failed = {"deliveries": [first["up_to"]], "error": "no", "retry_after": "0s"}
    assert (await say(web, fresh, "fail", **failed))["batch"]
    (second,) = await waiting(web, fresh)
    assert second["blocked"]
    assert await say(web, fresh, "park", deliveries=[second["up_to"]]) == {"parked": 1}
    assert await waiting(web, fresh) == []
    for expected in (1, 2):
        (batch,) = await due(web, fresh)
        assert [event["payload"] for event in batch["events"]] == [expected]
        await say(web, fresh, "retried", 204, batch=batch["batch"])
    assert await due(web, fresh) == []


async def test_a_lane_is_his_who_has_joined_until_he_leaves(web: Web, fresh: str) -> None:
    await delivered(web, fresh, 1, 2)
    path = f"/v1/broker/groups/{fresh}"
    mine = await web.ask("POST", f"{path}/join", json={"name": "one"}, role=READER)
    (lane,) = mine["lanes"]
    assert (lane["lane"], lane["surplus"]) == (0, False)
    again = await web.ask("POST", f"{path}/join", json={"process": mine["process"]}, role=READER)
    assert again["lanes"] == mine["lanes"]
    assert again["expires"] >= mine["expires"]
    other = await web.ask("POST", f"{path}/join", role=READER)
    assert other["lanes"] == []
    (first, second) = await waiting(web, fresh)
    done = {"lane": 0, "up_to": first["up_to"]}
    bad = {"lane": 0, "deliveries": [first["up_to"]], "error": "no"}
    for verb, body in (("commit", done), ("fail", bad)):
        assert (await web.refused("POST", f"{path}/{verb}", 409, json=body))["code"] == "TL409"
    await say(web, fresh, "commit", 204, up_to=first["up_to"], epoch=lane["epoch"])
    leaving = {"process": mine["process"]}
    await web.ask("POST", f"{path}/leave", json=leaving, role=READER, status=204)
    rejoined = {"process": other["process"]}
    (taken,) = (await web.ask("POST", f"{path}/join", json=rejoined, role=READER))["lanes"]
    assert int(taken["epoch"]) > int(lane["epoch"])
    assert taken["up_to"] == first["up_to"]
    for verb, more in (
        ("commit", {"up_to": second["up_to"]}),
        ("fail", {"deliveries": [second["up_to"]], "error": "no"}),
        ("park", {"deliveries": [second["up_to"]]}),
        ("retries", {}),
        ("retried", {"batch": "1"}),
    ):
        stale = {"lane": 0, "epoch": lane["epoch"], **more}
        assert (await web.refused("POST", f"{path}/{verb}", 423, json=stale))["code"] == "TL423"
    assert await waiting(web, fresh) == [second]


async def test_a_failure_that_is_refused_commits_nothing(web: Web, fresh: str) -> None:
    await delivered(web, fresh, 1, 2)
    first, second = await waiting(web, fresh)
    path = f"/v1/broker/groups/{fresh}/fail"
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"deliveries": [first["up_to"], "999999"], "error": "no"}, 410, "still there"),
        ({"deliveries": [], "error": "no"}, 422, "deliveries"),
        ({"deliveries": [first["up_to"]]}, 422, "error"),
        ({"deliveries": [first["up_to"]], "error": "no", "retry_after": "soon"}, 422, "retry_"),
        ({"deliveries": [first["up_to"]], "error": "no", "lane": 7}, 409, "lane 7"),
    ]
    for body, status, named in wrong:
        problem = await web.refused("POST", path, status, json={"lane": 0, **body})
        assert named in problem["detail"]
    assert await waiting(web, fresh) == [first, second]
    assert (await web.ask("GET", f"/v1/broker/dead?group={fresh}"))["letters"] == []


async def test_one_who_waits_reads_what_comes(served: Web, fresh: str) -> None:
    await delivered(served, fresh)
    reading = asyncio.create_task(say(served, fresh, "read", wait="20s"))
    await publish(served, fresh, "now")
    await matched(served)
    async with asyncio.timeout(10):
        assert [event["payload"] for event in (await reading)["events"]] == ["now"]
