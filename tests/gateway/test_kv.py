"""Keys and values over HTTP."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from tests.gateway.serving import READER, WRITER, place, take

if TYPE_CHECKING:
    from tests.gateway.serving import Web

JSON = {"Content-Type": "application/json"}


async def put(web: Web, key: str, value: Any, **more: Any) -> Any:
    return await web.raw("PUT", f"/v1/kv/{key}", content=json.dumps(value), role=WRITER, **more)


async def test_a_value_is_put_read_and_deleted(web: Web, fresh: str) -> None:
    first = await put(web, fresh, {"name": "Ann"})
    assert (first.status_code, first.json()) == (201, {"key": fresh, "answer": "INSERT"})
    second = await put(web, fresh, None)
    assert (second.status_code, second.json()["answer"]) == (200, "UPDATE")
    found = await web.raw("GET", f"/v1/kv/{fresh}", role=READER)
    assert (found.text, found.headers["etag"]) == ("null", second.headers["etag"])
    assert await web.ask("DELETE", f"/v1/kv/{fresh}", role=WRITER) == {
        "key": fresh,
        "answer": "UPDATE",
    }
    assert fresh in (await web.refused("GET", f"/v1/kv/{fresh}", 404))["detail"]


async def test_a_number_keeps_all_its_digits(web: Web, fresh: str) -> None:
    text = '{"n": 0.12345678901234567890123456789, "m": 123456789012345678901234567890}'
    await web.ask("PUT", f"/v1/kv/{fresh}", content=text, headers=JSON, status=201)
    found = await web.raw("GET", f"/v1/kv/{fresh}")
    assert "0.12345678901234567890123456789" in found.text
    assert "123456789012345678901234567890" in found.text


async def test_a_key_may_have_slashes_and_any_other_characters(web: Web, fresh: str) -> None:
    for key in (f"{fresh}/a/b", f"{fresh} ä?#%", f"{fresh}/watch", f"{fresh}//"):
        path = "/v1/kv/" + key.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
        await web.ask("PUT", path, json=key, status=201)
        assert await web.ask("GET", path) == key
        entries = (await web.ask("GET", "/v1/kv", params={"key": key}))["entries"]
        assert [entry["value"] for entry in entries] == [key]


async def test_only_the_version_that_was_expected_is_changed(web: Web, fresh: str) -> None:
    new = {"If-None-Match": "*"}
    first = await put(web, fresh, 1, headers=new)
    assert first.status_code == 201
    problem = await web.refused("PUT", f"/v1/kv/{fresh}", 412, json=2, headers=new)
    assert problem["code"] == "TL412"
    second = await put(web, fresh, 2, headers={"If-Match": first.headers["etag"]})
    assert second.status_code == 200
    stale = {"If-Match": first.headers["etag"]}
    await web.refused("PUT", f"/v1/kv/{fresh}", 412, json=3, headers=stale)
    await web.refused("DELETE", f"/v1/kv/{fresh}", 412, headers=stale)
    assert await web.ask("GET", f"/v1/kv/{fresh}") == 2
    same = {"If-None-Match": second.headers["etag"]}
    assert (await web.raw("GET", f"/v1/kv/{fresh}", headers=same)).status_code == 304
    present = {"If-Match": second.headers["etag"]}
    assert (await web.ask("DELETE", f"/v1/kv/{fresh}", headers=present))["answer"] == "UPDATE"


async def test_a_value_with_a_ttl_tells_when_it_expires(web: Web, fresh: str) -> None:
    answer = await put(web, f"{fresh}?ttl=1h", 1)
    assert answer.headers["trunkline-expires-at"]
    entry = (await web.ask("GET", "/v1/kv", params={"prefix": fresh}))["entries"][0]
    assert entry["expires_at"]


async def test_numbers_are_added_exactly(web: Web, fresh: str) -> None:
    path = f"/v1/kv/{fresh}"
    await web.ask("PUT", path, json={"old": 1, "views": 0}, status=201)
    for _ in range(3):
        patch = b'{"views": 0.1000000000000000000001, "old": null}'
        await web.ask("PATCH", path, content=patch, headers=JSON, role=WRITER)
    assert (await web.raw("GET", path)).text == '{"views": 0.3000000000000000000003}'


async def test_keys_are_scanned_page_by_page_and_put_together(web: Web, fresh: str) -> None:
    values = {f"{fresh}:{n}": n for n in range(5)}
    answer = await web.ask("POST", "/v1/kv", json={"values": values, "ttl": "1d"}, role=WRITER)
    assert set(answer["answers"].values()) == {"INSERT"}
    seen, after = [], ""
    while after is not None:
        query = {"prefix": f"{fresh}:", "after": after, "limit": 2}
        page = await web.ask("GET", "/v1/kv", params=query, role=READER)
        seen.append([entry["value"] for entry in page["entries"]])
        after = page["next"]
    assert seen == [[0, 1], [2, 3], [4]]
    query = {"key": [f"{fresh}:4", f"{fresh}:0", "nothing"]}
    assert len((await web.ask("GET", "/v1/kv", params=query))["entries"]) == 2


WRONG: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("PUT", "k", {"content": b"{", "headers": JSON}, 422, "body"),
    ("PUT", "k", {"content": b"", "headers": JSON}, 422, "body"),
    ("PUT", "k", {"content": b"NaN", "headers": JSON}, 422, "NaN"),
    ("PUT", "k", {"content": b'"\xff"', "headers": JSON}, 422, "body"),
    ("PUT", "k", {"content": b'"\\ud800"', "headers": JSON}, 422, "body"),
    ("PUT", "k", {"content": b'"\\u0000"', "headers": JSON}, 422, "\\u0000"),
    ("PUT", "k?ttl=soon", {"json": 1}, 422, "ttl"),
    ("PUT", "k?policy=none", {"json": 1}, 404, "policy"),
    ("PUT", "k?namespace=none", {"json": 1}, 404, "namespace"),
    ("PUT", "k?namespace=parade", {"json": 1}, 403, "parade"),
    ("PUT", "", {"json": 1}, 422, "key"),
    ("PUT", "k" * 2001, {"json": 1}, 422, "bytes"),
    ("PUT", "k", {"json": 1, "headers": {"If-Match": "*"}}, 422, "If-Match"),
    ("PUT", "k", {"json": 1, "headers": {"If-None-Match": '"1"'}}, 422, "If-None-Match"),
    ("PATCH", "k", {"json": [1]}, 422, "body"),
    ("PATCH", "k", {"json": {"a": "1"}}, 422, "a"),
    ("GET", "k?namespace=none", {}, 404, "namespace"),
]


async def test_what_makes_no_sense_is_refused(web: Web) -> None:
    for method, key, sent, status, named in WRONG:
        problem = await web.refused(method, f"/v1/kv/{key}", status, **sent)
        assert named in problem["detail"]
    problem = await web.refused("POST", "/v1/kv", 422, json={"values": {}, "colour": 1})
    assert "values" in problem["detail"]
    assert "limit" in (await web.refused("GET", "/v1/kv?limit=0", 422))["detail"]
    assert "rubbish" in (await web.refused("GET", "/v1/kv-watch?after=rubbish", 422))["detail"]
    await web.refused("GET", "/v1/kv-watch?namespace=none", 404)


async def test_the_namespace_of_the_parade_is_for_admins_whoever_the_gateway_is(web: Web) -> None:
    path = "/v1/kv?namespace=parade"
    assert (await web.refused("GET", path, 403, role=WRITER))["code"] == "TL403"
    assert "entries" in await web.ask("GET", path)


async def test_keys_are_followed_as_they_change(served: Web, fresh: str) -> None:
    async with served.follow(f"/v1/kv-watch?prefix={fresh}") as frames:
        await place(frames)
        for key in (fresh, f"other{fresh}", f"{fresh}:2"):
            await put(served, key, None)
        await served.ask("DELETE", f"/v1/kv/{fresh}:2")
        await served.platform.kv.tick()
        first, second = await take(frames, 2)
    assert (first.event, first.data["key"], first.data["value"]) == ("put", fresh, None)
    assert (second.event, second.data["key"]) == ("delete", f"{fresh}:2")


async def test_keys_followed_with_cuts_at_random_are_known_as_they_are(
    served: Web, fresh: str
) -> None:
    path, choice = f"/v1/kv-watch?prefix={fresh}", random.Random(5)
    known: dict[str, Any] = {}
    async with served.follow(path) as frames:
        last = await place(frames)
    for round_ in range(4):
        values = {f"{fresh}:{choice.randrange(12)}": [round_, n] for n in range(10)}
        await served.ask("POST", "/v1/kv", json={"values": values})
        await served.platform.kv.tick()
        left = len(values)
        while left:
            async with served.follow(path, last=last) as frames:
                found = await take(frames, choice.randint(1, min(left, 4)))
            last, left = found[-1].token or "", left - len(found)
            known |= {frame.data["key"]: frame.data["value"] for frame in found}
    entries = (await served.ask("GET", "/v1/kv", params={"prefix": fresh}))["entries"]
    assert known == {entry["key"]: entry["value"] for entry in entries}


async def test_a_place_in_another_life_of_the_server_is_told_as_a_reset(
    served: Web, fresh: str
) -> None:
    async with served.follow(f"/v1/kv-watch?prefix={fresh}", last="OTk5LjA") as frames:
        (reset,) = await take(frames, 1)
        assert reset.event == "reset"
        await put(served, fresh, 1)
        await served.platform.kv.tick()
        (found,) = await take(frames, 1)
    assert found.data["value"] == 1
