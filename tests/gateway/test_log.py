"""Topics over HTTP."""

from __future__ import annotations

import base64
import random
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.gateway.serving import READER, WRITER, place, take

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.gateway.serving import Frame, Web


async def append(web: Web, topic: str, *values: str, **more: Any) -> Any:
    messages = [{"value": value} for value in values]
    body = {"messages": messages, **more}
    return await web.ask("POST", f"/v1/log/{topic}", json=body, role=WRITER, status=201)


async def values_of(web: Web, topic: str, **query: Any) -> list[Any]:
    found = await web.ask("GET", f"/v1/log/{topic}/messages", params=query, role=READER)
    return [message["value"] for message in found["messages"]]


async def test_a_topic_is_made_described_changed_and_deleted(web: Web, fresh: str) -> None:
    path = f"/v1/log/{fresh}"
    made = await web.ask("PUT", path, json={"partitions": 2, "retention": "7d"})
    assert (made["partitions"], made["retention"]) == (2, "7d")
    assert await web.ask("PUT", path, json={"partitions": 2, "retention": "1w"}) == made
    assert (await web.refused("PUT", path, 409, json={"partitions": 3}))["code"] == "TL409"
    changed = await web.ask("PATCH", path, json={"retention": "forever", "codec": "zstd"})
    assert (changed["retention"], changed["codec"]) == (None, "zstd")
    found = await web.ask("GET", path)
    assert [part["first_offset"] for part in found["partitions"]] == ["1", "1"]
    assert fresh in [topic["topic"] for topic in await web.ask("GET", "/v1/log")]
    await web.ask("DELETE", path, status=204)
    assert (await web.refused("GET", path, 404))["code"] == "TL404"


async def test_what_is_appended_is_read_with_offsets_as_texts(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    body = {"messages": [{"value": "a", "key": "k", "headers": {"n": 1}}, {"value": "b"}]}
    answer = await web.ask("POST", f"/v1/log/{fresh}", json=body, status=201)
    assert answer == {"appended": [{"partition": 0, "first_offset": "1", "last_offset": "2"}]}
    found = await web.ask("GET", f"/v1/log/{fresh}/messages")
    assert found["next"] == "3"
    first, second = found["messages"]
    assert (first["offset"], first["key"], first["headers"]) == ("1", "k", {"n": 1})
    assert (second["offset"], second["key"], second["headers"]) == ("2", None, None)


@pytest.mark.parametrize("codec", ["none", "zstd"])
async def test_bytes_that_are_no_text_go_and_come_as_base64(
    web: Web, fresh: str, codec: str
) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}", json={"codec": codec})
    value = {"base64": base64.b64encode(b"\xff\x00").decode()}
    body = {"messages": [{"value": value, "key": value}]}
    await web.ask("POST", f"/v1/log/{fresh}", json=body, status=201)
    found = (await web.ask("GET", f"/v1/log/{fresh}/messages"))["messages"][0]
    assert (found["value"], found["key"]) == (value, value)


async def test_lines_and_bytes_are_appended_as_they_are(web: Web, fresh: str) -> None:
    path = f"/v1/log/{fresh}"
    await web.ask("PUT", path)
    lines = {"Content-Type": "application/x-ndjson"}
    answer = await web.ask(
        "POST", path, content=b'{"a": 1}\nplain\n', headers=lines, role=WRITER, status=201
    )
    assert answer["appended"][0]["last_offset"] == "2"
    raw = {"Content-Type": "application/octet-stream"}
    await web.ask(
        "POST", f"{path}?key=k", content=b"one\ntwo", headers=raw, role=WRITER, status=201
    )
    found = (await web.ask("GET", f"{path}/messages"))["messages"]
    assert [each["value"] for each in found] == ['{"a": 1}', "plain", "one\ntwo"]
    assert found[2]["key"] == "k"


async def test_partitions_that_a_request_adds_take_keys_at_once(web: Web, fresh: str) -> None:
    path = f"/v1/log/{fresh}"
    await web.ask("PUT", path)
    messages = [{"value": "v", "key": str(n)} for n in range(20)]
    first = await web.ask("POST", path, json={"messages": messages}, status=201)
    await web.ask("PATCH", path, json={"partitions": 3})
    second = await web.ask("POST", path, json={"messages": messages}, status=201)
    assert [len(each["appended"]) for each in (first, second)] == [1, 3]


async def test_an_append_with_a_producers_number_is_stored_once(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}", json={"partitions": 3})
    numbers = {"producer_id": str(uuid4()), "producer_seq": "1"}
    messages = [{"value": str(n), "key": str(n) if n % 2 else None} for n in range(10)]
    body = {"messages": messages, **numbers}
    first = await web.ask("POST", f"/v1/log/{fresh}", json=body, status=201)
    assert await web.ask("POST", f"/v1/log/{fresh}", json=body, status=201) == first
    found = [value for n in range(3) for value in await values_of(web, fresh, partition=n)]
    assert sorted(found) == [str(n) for n in range(10)]
    body["producer_seq"] = 0
    assert (await web.refused("POST", f"/v1/log/{fresh}", 409, json=body))["code"] == "TL409"


async def test_reading_goes_page_by_page_to_the_end(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    await append(web, fresh, *map(str, range(7)))
    seen, after = [], "earliest"
    for _ in range(4):
        query = {"from": after, "limit": 3}
        found = await web.ask("GET", f"/v1/log/{fresh}/messages", params=query)
        seen.append([message["value"] for message in found["messages"]])
        after = found["next"]
    assert seen == [["0", "1", "2"], ["3", "4", "5"], ["6"], []]
    assert await values_of(web, fresh, **{"from": "2000-01-01T00:00:00Z"}) == list("0123456")
    assert await values_of(web, fresh, **{"from": "latest"}) == []


async def test_an_offset_that_has_left_is_gone_and_the_first_is_told(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    await append(web, fresh, "a", "b", "c")
    trimmed = await web.ask(
        "POST", f"/v1/log/{fresh}/trim", json={"partition": 0, "before_offset": "3"}
    )
    assert trimmed == {"partition": 0, "first_offset": "3"}
    problem = await web.refused("GET", f"/v1/log/{fresh}/messages?from=1", 410)
    assert (problem["code"], problem["first"]) == ("TL410", "3")


async def test_groups_are_listed_moved_and_deleted(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    await append(web, fresh, "a", "b")
    async with web.platform.log.consume(fresh, "g") as consumer:
        batch = await anext(aiter(consumer))
        await batch.commit()
    path = f"/v1/log/{fresh}/groups"
    assert [group["up_to"] for group in await web.ask("GET", path)] == ["2"]
    earliest = {"to": "earliest"}
    await web.refused("POST", f"{path}/g/seek", 403, json=earliest, role=WRITER)
    moved = await web.ask("POST", f"{path}/g/seek", json=earliest)
    assert moved == [{"partition": 0, "next": "1"}]
    assert (await web.ask("GET", f"/v1/log/{fresh}/lag", params={"group": "g"}))[0]["lag"] == 2
    await web.ask("DELETE", f"{path}/g", status=204)
    assert await web.ask("GET", path) == []


WRONG_MESSAGES: list[tuple[Any, str]] = [
    ({"messages": [{"value": 1}]}, "messages.0.value"),
    ({"messages": [{"value": {"base64": "?"}}]}, "messages.0.value"),
    ({"messages": [{"value": "a", "kee": "b"}]}, "messages.0.kee"),
    ({"messages": []}, "messages"),
    ({"messages": [{"value": "a"}], "partition": "0"}, "partition"),
    ({"messages": [{"value": "a"}], "producer_id": "x", "producer_seq": 1}, "producer_id"),
    ({"messages": [{"value": "a"}], "producer_seq": 1}, "producer_id"),
    ({"messages": [{"value": "a", "headers": [1]}]}, "messages.0.headers"),
    ({"messages": [{"value": None}]}, "null"),
    ([], "body"),
]


async def test_messages_are_refused_by_the_name_of_what_is_wrong(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    for body, named in WRONG_MESSAGES:
        problem = await web.refused("POST", f"/v1/log/{fresh}", 422, json=body)
        assert problem["code"] == "TL422"
        assert named in problem["detail"]
    assert await values_of(web, fresh) == []


JSON = {"Content-Type": "application/json"}
SENSELESS: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("PUT", "", {"json": {"partitions": "2"}}, 422, "partitions"),
    ("PUT", "", {"json": {"retention": "soon"}}, 422, "retention"),
    ("PUT", "", {"json": {"retention": 7}}, 422, "retention"),
    ("PUT", "", {"json": {"colour": "red"}}, 422, "colour"),
    ("PUT", "", {"json": {"retention_bytes": 2**63}}, 422, "retention_bytes"),
    ("PATCH", "", {"content": b"{", "headers": JSON}, 422, "body: it is not JSON"),
    ("PATCH", "", {}, 422, "body"),
    ("GET", "/messages?limit=1001", {}, 422, "limit"),
    ("GET", "/messages?from=soon", {}, 422, "from"),
    ("GET", "/messages?from=99999999999999999999", {}, 422, "from"),
    ("GET", "/messages?from=0", {}, 422, "offsets start at 1"),
    ("GET", "/messages?partition=7", {}, 404, "partition"),
    ("GET", "/stream?after=rubbish", {}, 422, "rubbish"),
    ("GET", "/stream?partition=7", {}, 404, "partition"),
    ("POST", "", {"content": b"x", "headers": {"Content-Type": "text/plain"}}, 415, "text/"),
    ("POST", "?partition=0", {"json": {"messages": []}}, 422, "partition"),
    ("POST", "/groups/g/seek", {"json": {"to": "soon"}}, 422, "to"),
    ("POST", "/trim", {"json": {"partition": 0}}, 422, "before_offset"),
    ("PUT", "%20", {}, 422, "topic"),
    ("POST", "/nothing", {}, 404, ""),
    ("PUT", "/messages", {}, 405, ""),
]


async def test_what_makes_no_sense_gets_an_answer(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    for method, path, sent, status, named in SENSELESS:
        problem = await web.refused(method, f"/v1/log/{fresh}{path}", status, **sent)
        assert named in problem["detail"]


async def read_all(frames: AsyncIterator[Frame], number: int) -> tuple[list[str], str]:
    found = await take(frames, number)
    assert {frame.event for frame in found} == {"message"}
    assert found[-1].token
    return [frame.data["value"] for frame in found], found[-1].token


async def test_a_stream_of_a_topic_that_is_cut_at_random_misses_and_repeats_nothing(
    served: Web, fresh: str
) -> None:
    await served.ask("PUT", f"/v1/log/{fresh}", json={"partitions": 3})
    path, choice = f"/v1/log/{fresh}/stream", random.Random(7)
    async with served.follow(path) as frames:
        last = await place(frames)
    seen: list[str] = []
    for round_ in range(5):
        values = [f"{round_}-{n}" for n in range(20)]
        for n in range(3):
            await append(served, fresh, *values[n::3], partition=n)
        while len(seen) < 20 * (round_ + 1):
            left = 20 * (round_ + 1) - len(seen)
            async with served.follow(path, last=last) as frames:
                found, last = await read_all(frames, choice.randint(1, min(left, 9)))
                seen += found
    assert len(seen) == len(set(seen)) == 100
    assert sorted(seen) == sorted(f"{round_}-{n}" for round_ in range(5) for n in range(20))


async def test_a_stream_of_a_topic_tells_what_comes_while_it_is_open(
    served: Web, fresh: str
) -> None:
    await served.ask("PUT", f"/v1/log/{fresh}")
    await append(served, fresh, "before")
    async with served.follow(f"/v1/log/{fresh}/stream") as frames:
        await place(frames)
        await append(served, fresh, "after")
        (found,) = await take(frames, 1)
        assert (found.data["value"], found.data["offset"]) == ("after", "2")
        await served.ask("PATCH", f"/v1/log/{fresh}", json={"partitions": 2})
        await append(served, fresh, "new partition", partition=1)
        (found,) = await take(frames, 1)
        assert (found.data["value"], found.data["partition"]) == ("new partition", 1)


async def test_dead_letters_are_shown_tried_again_and_given_up(web: Web, fresh: str) -> None:
    await web.ask("PUT", f"/v1/log/{fresh}")
    await append(web, fresh, "a", "b", "c")
    async with web.platform.transaction() as on:
        await on.execute(
            "select b.* from trunkline.log_claim(%(topic)s, 'g', 0, deadline => '1 minute') c,"
            " trunkline.log_bury(%(topic)s, 'g', 0, c.claim, 'boom') b",
            {"topic": fresh},
        )
    path = f"/v1/log/{fresh}/dead"
    found = await web.ask("GET", path, params={"group": "g", "limit": 2}, role=READER)
    assert [(each["letter"], each["offset"]) for each in found["letters"]] == [
        ("1", "1"),
        ("2", "2"),
    ]
    assert found["next"] == "2"
    shown = await web.ask("GET", f"{path}/1", role=READER)
    assert (shown["value"], shown["reason"]) == ("a", "boom")
    await web.refused("POST", f"{path}/1/retry", 403, role=READER)
    assert await web.ask("POST", f"{path}/1/retry", role=WRITER) == {"letters": 1}
    assert await web.ask("DELETE", f"{path}/2", role=WRITER) == {"letters": 1}
    await web.refused("GET", f"{path}/2", 404)
    assert await web.ask("POST", f"{path}/retry", json={"group": "g"}) == {"letters": 1}
    assert await web.ask("POST", f"{path}/discard", json={"group": "g"}) == {"letters": 0}
    assert await values_of(web, fresh) == ["a", "b", "c", "a", "c"]


async def test_a_stream_behind_what_has_left_says_so_and_goes_on_with_the_first_there_is(
    served: Web, fresh: str
) -> None:
    await served.ask("PUT", f"/v1/log/{fresh}")
    await append(served, fresh, "a", "b", "c")
    path = f"/v1/log/{fresh}/stream"
    async with served.follow(f"{path}?from=earliest") as frames:
        (first,) = await take(frames, 1)
    await served.ask("POST", f"/v1/log/{fresh}/trim", json={"partition": 0, "before_offset": "3"})
    async with served.follow(path, last=first.token) as frames:
        reset, found = await take(frames, 2)
    assert reset.event == "reset"
    assert "starts at 3" in reset.data["reason"]
    assert found.data["value"] == "c"
    await served.ask("DELETE", f"/v1/log/{fresh}", status=204)
    await served.ask("PUT", f"/v1/log/{fresh}")
    await append(served, fresh, "anew")
    async with served.follow(path, last=found.token) as frames:
        reset, found = await take(frames, 2)
    assert "created again" in reset.data["reason"]
    assert found.data["value"] == "anew"


async def test_a_topic_that_is_deleted_ends_its_streams_with_an_error(
    served: Web, fresh: str
) -> None:
    await served.ask("PUT", f"/v1/log/{fresh}")
    async with served.follow(f"/v1/log/{fresh}/stream") as frames:
        await place(frames)
        await served.ask("DELETE", f"/v1/log/{fresh}", status=204)
        (found,) = await take(frames, 1)
        assert (found.event, found.data["status"]) == ("error", 404)
        assert [frame async for frame in frames] == []


async def test_a_topic_that_is_not_there_cannot_be_followed(web: Web, fresh: str) -> None:
    problem = await web.refused("GET", f"/v1/log/{fresh}/stream", 404)
    assert problem["code"] == "TL404"
    assert len(web.gateway.feeds) == 0
