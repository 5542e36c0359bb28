"""Tubes over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.serving import READER, WRITER

if TYPE_CHECKING:
    from tests.gateway.serving import Web


@pytest.fixture
async def tube(web: Web, fresh: str) -> str:
    """A tube with a table that has the same name."""
    async with web.platform.transaction() as connection:
        await connection.execute(f"create table {fresh} (id int primary key)")
        await connection.execute(f"insert into {fresh} select generate_series(1, 3)")
    await web.platform.tube.ensure(fresh, lanes=1)
    await web.platform.tube.attach(fresh, fresh)
    return fresh


async def waiting(web: Web, tube: str) -> tuple[int, int]:
    await web.platform.tube.tick()
    (lane,) = await web.ask("GET", f"/v1/tube/{tube}/stats", role=READER)
    return lane["live_entries"], lane["backfill_entries"]


async def test_tubes_are_listed_with_their_tables(web: Web, tube: str) -> None:
    found = await web.ask("GET", "/v1/tube", params={"relation": tube}, role=READER)
    assert [(each["tube"], each["relation"]) for each in found] == [(tube, tube)]
    assert tube in {each["tube"] for each in await web.ask("GET", "/v1/tube")}


async def test_keys_are_touched(web: Web, tube: str) -> None:
    body = {"relation": tube, "keys": [1, "2"], "payload": {"why": "test"}}
    assert await web.ask("POST", f"/v1/tube/{tube}/touch", json=body, role=WRITER) == {"keys": 2}
    assert (await waiting(web, tube))[0] == 1
    (lane,) = await web.ask("GET", f"/v1/tube/{tube}/stats")
    assert isinstance(lane["head"], str)


async def test_a_backfill_is_scheduled_paused_resumed_and_cancelled(web: Web, tube: str) -> None:
    path = f"/v1/tube/{tube}/backfills"
    body = {"chunk": 2, "throttle": "1s"}
    (number,) = (await web.ask("POST", path, json=body, role=WRITER, status=201))["backfills"]
    (found,) = await web.ask("GET", path, role=READER)
    assert (found["backfill"], found["status"], found["throttle"]) == (number, "running", "1s")
    for verb, status in (("pause", "paused"), ("resume", "running")):
        assert await web.ask("POST", f"{path}/{verb}", role=WRITER) == {"backfills": 1}
        assert (await web.ask("GET", path))[0]["status"] == status
    assert await web.ask("DELETE", path, role=WRITER) == {"backfills": 1}
    assert (await web.ask("GET", path))[0]["status"] == "cancelled"


async def test_parked_keys_are_listed_and_tried_again(web: Web, tube: str) -> None:
    attached = await web.platform.tube.attach(tube, tube)
    async with web.platform.transaction() as connection:
        process = await web.platform.broker.process()
        joined = await connection.execute(
            "select lane, epoch from trunkline.tube_join(%s, %s)", (tube, process)
        )
        lane, epoch = (await joined.fetchall())[0]
        await connection.execute(
            "select trunkline.tube_park(%s, %s, %s, %s, 0, '1', 5, 'no')",
            (tube, lane, epoch, attached.attachment),
        )
    (found,) = await web.ask("GET", f"/v1/tube/{tube}/parked", role=READER)
    assert (found["key"], found["attempts"], found["error"]) == ("1", 5, "no")
    path = f"/v1/tube/{tube}/unpark"
    assert await web.ask("POST", path, json={"keys": ["1"]}, role=WRITER) == {"keys": 1}
    assert await web.ask("GET", f"/v1/tube/{tube}/parked") == []


WRONG: list[tuple[str, str, Any, int, str]] = [
    ("POST", "touch", {"keys": []}, 422, "keys"),
    ("POST", "touch", {"keys": [{"a": 1}]}, 422, "keys"),
    ("POST", "touch", {"keys": [1], "op": "?"}, 422, "?"),
    ("POST", "touch", {"keys": [1], "relation": "nothing"}, 404, "nothing"),
    ("POST", "backfills", {"throttle": 1}, 422, "throttle"),
    ("POST", "backfills", {"chunk": 0}, 422, "chunk"),
    ("POST", "unpark", {"kees": []}, 422, "kees"),
]


async def test_what_makes_no_sense_is_refused(web: Web, tube: str) -> None:
    for method, path, body, status, named in WRONG:
        problem = await web.refused(method, f"/v1/tube/{tube}/{path}", status, json=body)
        assert named in problem["detail"]
    for method, path in (("POST", "touch"), ("POST", "backfills"), ("DELETE", "backfills")):
        body = {"json": {"keys": [1]}} if path == "touch" else {}
        await web.refused(method, f"/v1/tube/{tube}/{path}", 403, role=READER, **body)
        await web.refused(method, f"/v1/tube/no{tube}/{path}", 404, **body)
