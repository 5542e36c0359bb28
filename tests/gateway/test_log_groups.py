"""Readers of topics who share the work over HTTP."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.gateway.serving import READER, WRITER
from tests.gateway.test_log import append, values_of

from trunkline.gateway.claiming import Claimed, Claiming
from trunkline.testing import eventually

if TYPE_CHECKING:
    import pytest
    from tests.gateway.serving import Web


async def claim(web: Web, topic: str, **asked: Any) -> dict[str, Any]:
    path = f"/v1/log/{topic}/groups/packers/claim"
    found: dict[str, Any] = await web.ask("POST", path, json=asked, role=READER)
    return found


async def settle(web: Web, topic: str, how: str, found: dict[str, Any], **more: Any) -> None:
    held = {"partition": found["partition"], "claim": found["claim"], **more}
    path = f"/v1/log/{topic}/groups/packers/{how}"
    await web.ask("POST", path, json=held, role=READER, status=204)


def values(found: dict[str, Any]) -> list[str]:
    return [message["value"] for message in found["messages"]]


async def test_what_one_claims_nobody_else_gets_until_it_is_released(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    await append(web, fresh, *"abc")
    first = await claim(web, fresh, max_messages=2, deadline="1m")
    assert (values(first), first["attempts"], first["partition"]) == (["a", "b"], 1, 0)
    assert (first["first_offset"], first["last_offset"]) == ("1", "2")
    second = await claim(web, fresh)
    assert values(second) == ["c"]
    assert await claim(web, fresh) == {"claim": None, "messages": []}
    await settle(web, fresh, "ack", second)
    await settle(web, fresh, "release", first, reason="no paper")
    again = await claim(web, fresh)
    assert (values(again), again["attempts"], again["reason"]) == (["a", "b"], 2, "no paper")
    await settle(web, fresh, "ack", again)
    for how, more in (("ack", {}), ("release", {}), ("extend", {"deadline": "1m"})):
        held = {"partition": 0, "claim": again["claim"], **more}
        path = f"/v1/log/{fresh}/groups/packers/{how}"
        refusal = await web.refused("POST", path, 423, json=held, role=READER)
        assert (refusal["code"], refusal["claim"]) == ("TL423", again["claim"])
    (group,) = await web.ask("GET", f"/v1/log/{fresh}/groups")
    assert (group["up_to"], group["mode"], group["claims"]) == ("3", "shared", 0)


async def test_the_claim_of_a_client_that_died_comes_back_after_its_deadline(
    web: Web, fresh: str
) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    await append(web, fresh, "a", "b")
    kept = await claim(web, fresh, max_messages=1, deadline="0.1s")
    held = {"partition": 0, "claim": kept["claim"], "deadline": "1h"}
    path = f"/v1/log/{fresh}/groups/packers/extend"
    until = (await web.ask("POST", path, json=held, role=READER))["expires"]
    assert until > kept["expires"]
    dead = await claim(web, fresh, deadline="0.1s")
    again = await claim(web, fresh, wait="10s")
    assert (values(again), again["attempts"]) == (values(dead), 2) == (["b"], 2)


async def test_what_keeps_failing_goes_to_the_dead_letters_and_the_rest_comes(
    web: Web, fresh: str
) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    await append(web, fresh, "bad", "good")
    both = await claim(web, fresh, max_attempts=2)
    await settle(web, fresh, "release", both, reason="broken")
    bad = await claim(web, fresh, max_attempts=2)
    assert values(bad) == ["bad"]
    await settle(web, fresh, "release", bad, reason="still broken")
    path, asked = f"/v1/log/{fresh}/groups/packers/claim", {"max_attempts": 2}
    good = await web.ask("POST", path, json=asked, role=WRITER)
    assert values(good) == ["good"]
    assert (await web.ask("POST", path, json=asked, role=WRITER))["claim"] is None
    dead = (await web.ask("GET", f"/v1/log/{fresh}.dead/messages"))["messages"]
    assert [letter["value"] for letter in dead] == ["bad"]
    why = dead[0]["headers"]["dead"]
    place = {"topic": fresh, "group": "packers", "partition": 0, "offset": 1}
    assert place.items() <= why.items()
    assert (why["attempts"], why["reason"]) == (2, "still broken")


async def test_a_claim_has_as_many_bytes_as_were_asked_for_and_its_attempts_are_right(
    web: Web, fresh: str
) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    sizes = [10, 2000, 10, 10, 990, 10]
    await append(web, fresh, *("x" * size for size in sizes))
    seen = []
    while (found := await claim(web, fresh, max_bytes=1010))["claim"]:
        assert found["attempts"] == 1
        seen.append([len(value) for value in values(found)])
        await settle(web, fresh, "ack", found)
    assert seen == [[10], [2000], [10, 10, 990], [10]]


async def test_who_claims_at_once_gets_each_message_of_all_partitions_once(
    web: Web, fresh: str
) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}", json={"partitions": 3, "codec": "zstd"})
    for partition in range(3):
        await append(web, fresh, *(f"{partition}-{n}" for n in range(8)), partition=partition)
    seen: list[str] = []

    async def read() -> None:
        while (found := await claim(web, fresh, max_messages=3))["claim"]:
            seen.extend(values(found))
            await settle(web, fresh, "ack", found)

    await asyncio.gather(*(read() for _ in range(3)))
    assert sorted(seen) == sorted(f"{p}-{n}" for p in range(3) for n in range(8))


async def test_one_who_waits_is_told_what_comes_and_one_who_left_takes_nothing(
    served: Web, fresh: str
) -> None:
    await served.ask("PUT", f"/v1/log/{fresh}")
    leaving = asyncio.create_task(claim(served, fresh, wait="30s"))
    await eventually(lambda: groups_are(served, fresh, 1))
    leaving.cancel()
    await asyncio.wait({leaving})
    waiting = asyncio.create_task(claim(served, fresh, wait="30s"))
    await append(served, fresh, "a")
    async with asyncio.timeout(10):
        assert values(await waiting) == ["a"]


async def test_one_who_waits_asks_at_once_of_all_partitions_where_there_is_something(
    served: Web, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    one = Claiming._claim

    async def noted(claiming: Claiming, partition: int) -> Claimed | None:
        tried.append(partition)
        return await one(claiming, partition)

    monkeypatch.setattr(Claiming, "_claim", noted)
    await served.ask("PUT", f"/v1/log/{fresh}", json={"partitions": 8})
    assert (await claim(served, fresh, wait="1.1s"))["claim"] is None
    assert sorted(tried) == list(range(8))
    waiting = asyncio.create_task(claim(served, fresh, wait="30s"))
    await append(served, fresh, "a", partition=5)
    async with asyncio.timeout(10):
        assert values(await waiting) == ["a"]


async def groups_are(web: Web, topic: str, number: int) -> None:
    assert len(await web.ask("GET", f"/v1/log/{topic}/groups")) == number


async def test_one_who_reads_alone_notes_how_far_he_is(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    await append(web, fresh, "a", "b")
    path = f"/v1/log/{fresh}/groups"
    done = {"up_to": "1"}
    await web.ask("POST", f"{path}/alone/progress", json=done, role=READER, status=204)
    (group,) = await web.ask("GET", path, params={"group": "alone"})
    assert (group["up_to"], group["lag"]) == ("1", 1)
    assert await values_of(web, fresh, **{"from": int(group["up_to"]) + 1}) == ["b"]
    await claim(web, fresh)
    wrong = [("alone", "3", 422), ("packers", "1", 409)]
    for name, up_to, status in wrong:
        await web.refused("POST", f"{path}/{name}/progress", status, json={"up_to": up_to})
    await web.refused("POST", f"{path}/alone/claim", 409)
    await web.ask("POST", f"{path}/alone/progress", json={"up_to": "2"}, status=204)
    await web.refused("POST", f"{path}/alone/claim", 409)  # also where nothing is left for it
    await web.refused("POST", f"{path}/packers/claim", 422, json={"deadline": "0s"})


WRONG: list[tuple[str, dict[str, Any], int, str]] = [
    ("claim", {"max_messages": 0}, 422, "max_messages"),
    ("claim", {"max_bytes": 9 << 20}, 422, "max_bytes"),
    ("claim", {"deadline": "0s"}, 422, "deadline"),
    ("claim", {"deadline": 30}, 422, "deadline"),
    ("claim", {"wait": "31s"}, 422, "wait"),
    ("claim", {"start": "soon"}, 422, "start"),
    ("claim", {"partition": 7}, 404, "partition"),
    ("ack", {"claim": "1"}, 422, "partition"),
    ("ack", {"partition": 0, "claim": "one"}, 422, "claim"),
    ("ack", {"partition": 0, "claim": 2**63}, 422, "64 bits, got 9223372036854775808"),
    ("ack", {"partition": 0, "claim": "1"}, 423, "not in flight"),
    ("ack", {"partition": 0, "claim": "1", "grp": "x"}, 422, "grp: there is no such name"),
    ("extend", {"partition": 0, "claim": "1"}, 422, "deadline"),
]


async def test_what_makes_no_sense_is_refused_by_name(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    for how, body, status, named in WRONG:
        path = f"/v1/log/{fresh}/groups/packers/{how}"
        assert named in (await web.refused("POST", path, status, json=body))["detail"]
    await append(web, fresh, "a", "b")
    await claim(web, fresh, max_messages=1)
    await web.ask("POST", f"/v1/log/{fresh}/trim", json={"partition": 0, "before_offset": "3"})
    await append(web, fresh, "c")
    path = f"/v1/log/{fresh}/groups/packers/claim"
    assert (await web.refused("POST", path, 410))["code"] == "TL410"
