"""Events over HTTP."""

from __future__ import annotations

import json
import random
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from cloudevents.core.formats.json import JSONFormat
from tests.gateway.serving import READER, WRITER, bearer, place, take

if TYPE_CHECKING:
    from tests.gateway.serving import Web

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CLOUDEVENT = {
    "specversion": "1.0",
    "id": "a-1",
    "source": "/shop",
    "type": "orders.made",
    "subject": "7",
    "data": {"order": 7},
}


async def publish(web: Web, topic: str, *payloads: Any, key: str | None = None) -> list[str]:
    events = [{"topic": topic, "payload": payload, "key": key} for payload in payloads]
    found = await web.ask("POST", "/v1/broker/events", json=events, role=WRITER, status=201)
    await web.platform.broker.tick()
    ids: list[str] = found["event_ids"]
    return ids


async def events_of(web: Web, topic: str) -> list[dict[str, Any]]:
    await web.platform.broker.tick()
    found = await web.ask("GET", "/v1/broker/events", params={"topic": topic, "limit": 1000})
    events: list[dict[str, Any]] = found["events"]
    return events


async def subscribed(web: Web, fresh: str) -> int:
    """A group of this name with the events of the topic of this name."""
    body = {"group": fresh, "condition": {"topic": fresh}}
    answer = await web.ask("POST", "/v1/broker/subscriptions", json=body, role=READER, status=201)
    return int(answer["subscription"])


async def matched(web: Web) -> None:
    await web.platform.broker.tick()
    while await web.platform.broker.match():
        pass


async def test_one_event_or_many_are_published_in_order(web: Web, fresh: str) -> None:
    one = {"topic": fresh, "payload": {"n": 0}, "key": "k", "metadata": {"by": "me"}}
    found = await web.ask("POST", "/v1/broker/events", json=one, role=WRITER, status=201)
    ids = found["event_ids"] + await publish(web, fresh, {"n": 1}, None, [2**60])
    events = await events_of(web, fresh)
    assert [event["event_id"] for event in events] == ids
    assert [event["payload"] for event in events] == [{"n": 0}, {"n": 1}, None, [2**60]]
    assert (events[0]["key"], events[0]["metadata"]) == ("k", {"by": "me"})
    after = await web.ask("GET", "/v1/broker/events", params={"from": events[1]["position"]})
    assert after["events"][0] == events[1]
    ends = await web.ask("GET", "/v1/broker/ends")
    assert int(ends["last"]) >= int(events[-1]["position"])


async def test_cloudevents_are_taken_in_each_of_their_forms(web: Web, fresh: str) -> None:
    event = CLOUDEVENT | {"type": fresh}
    structured = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
    batch = {"Content-Type": "application/cloudevents-batch+json"}
    binary = {
        "Content-Type": "application/json",
        "ce-specversion": "1.0",
        "ce-id": "a-1",
        "ce-source": "/shop",
        "ce-type": fresh,
        "ce-subject": "7",
    }
    sent = [(structured, event), (batch, [event, event]), (binary, event["data"])]
    for headers, body in sent:
        await web.ask(
            "POST",
            "/v1/broker/events",
            content=json.dumps(body),
            headers=headers,
            role=WRITER,
            status=201,
        )
    events = await events_of(web, fresh)
    assert len(events) == 4
    told = {(event["key"], json.dumps(event["payload"])) for event in events}
    assert told == {("7", '{"order": 7}')}
    assert events[3]["metadata"] == events[0]["metadata"]
    assert events[0]["metadata"]["cloudevent"] == {"id": "a-1", "source": "/shop"}


async def test_data_of_a_binary_cloudevent_that_is_no_json_is_text_or_base64(
    web: Web, fresh: str
) -> None:
    headers = {"ce-specversion": "1.0", "ce-id": "%C3%A4", "ce-source": "s", "ce-type": fresh}
    for kind, data in (("text/plain", "grün".encode()), ("image/png", b"\xff\x00"), ("", b"")):
        given = headers | ({"Content-Type": kind} if kind else {})
        await web.ask("POST", "/v1/broker/events", content=data, headers=given, status=201)
    events = await events_of(web, fresh)
    assert [event["payload"] for event in events] == ["grün", "/wA=", None]
    assert events[0]["metadata"]["cloudevent"]["id"] == "ä"


CE = {"Content-Type": "application/cloudevents+json"}
JSON = {"Content-Type": "application/json"}
WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({"json": {"payload": 1}}, 422, "topic"),
    ({"json": {"topic": "t"}}, 422, "payload"),
    ({"json": [{"topic": "t", "payload": 1}, {"topic": 7, "payload": 1}]}, 422, "1.topic"),
    ({"json": {"topic": "t", "payload": 1, "kee": "k"}}, 422, "kee"),
    ({"json": {"topic": "t", "payload": 1, "deliver_at": "soon"}}, 422, "deliver_at"),
    ({"json": {"topic": "t", "payload": 1, "subscription": True}}, 422, "subscription"),
    ({"json": []}, 413, "1 to 10000"),
    ({"content": b'{"topic": "t", "payload": NaN}', "headers": JSON}, 422, "NaN"),
    ({"content": b'{"topic": "t", "payload": "\\ud800"}', "headers": JSON}, 422, "body"),
    ({"content": b"[" * 100_000, "headers": JSON}, 422, "body"),
    ({"content": b'{"topic": "t", "payload": "\\u0000"}', "headers": JSON}, 422, "\\u0000"),
    ({"content": b"hello", "headers": {"Content-Type": "text/plain"}}, 415, "text/plain"),
    ({"json": CLOUDEVENT | {"id": ""}, "headers": CE}, 422, '"id"'),
    ({"json": [CLOUDEVENT], "headers": CE}, 422, "one event"),
    ({"content": b"{}", "headers": JSON | {"ce-specversion": "1.0"}}, 422, '"id"'),
]


async def test_a_wrong_event_is_refused_and_none_of_its_company_is_published(
    web: Web, fresh: str
) -> None:
    before = await web.ask("GET", "/v1/broker/ends")
    for sent, status, named in WRONG:
        problem = await web.refused("POST", "/v1/broker/events", status, **sent)
        assert named in problem["detail"]
    await web.platform.broker.tick()
    assert await web.ask("GET", "/v1/broker/ends") == before


async def test_a_stream_of_events_that_is_cut_at_random_misses_and_repeats_nothing(
    served: Web, fresh: str
) -> None:
    path, choice = f"/v1/broker/stream?pattern={fresh}", random.Random(11)
    async with served.follow(path) as frames:
        last = await place(frames)
    seen: list[int] = []
    for round_ in range(5):
        await publish(served, fresh, *range(20 * round_, 20 * round_ + 20))
        while len(seen) < 20 * (round_ + 1):
            number = choice.randint(1, min(9, 20 * (round_ + 1) - len(seen)))
            async with served.follow(path, last=last) as frames:
                found = await take(frames, number)
            seen += [frame.data["payload"] for frame in found]
            last = found[-1].token or ""
    assert seen == list(range(100))


async def test_a_stream_tells_events_as_they_come_for_which_the_condition_holds(
    served: Web, fresh: str
) -> None:
    query = {
        "pattern": f"{fresh}.*",
        "condition": "(e.payload->>'n')::int >= (s.params->>'n')::int",
        "params": '{"n": 2}',
    }
    async with served.follow("/v1/broker/stream", params=query) as frames:
        await place(frames)
        for n in range(4):
            (number,) = await publish(served, f"{fresh}.made", {"n": n}, key="k")
        first, second = await take(frames, 2)
    assert (first.data["payload"], second.data["payload"]) == ({"n": 2}, {"n": 3})
    assert (second.event, second.data["event_id"], second.data["key"]) == ("message", number, "k")


async def test_a_number_goes_through_with_all_its_digits(served: Web, fresh: str) -> None:
    async with served.follow(f"/v1/broker/stream?pattern={fresh}") as frames:
        await place(frames)
        text = f'{{"topic": "{fresh}", "payload": {{"n": 0.12345678901234567890123456789}}}}'
        await served.ask("POST", "/v1/broker/events", content=text, headers=JSON, status=201)
        await served.platform.broker.tick()
        (found,) = await take(frames, 1)
        raw = await served.raw("GET", f"/v1/broker/events?topic={fresh}")
    assert found.data["payload"] == {"n": 0.12345678901234567890123456789}
    assert '{"n": 0.12345678901234567890123456789}' in raw.text


async def test_a_stream_gives_cloudevents_to_whoever_asks_for_them(served: Web, fresh: str) -> None:
    path = f"/v1/broker/stream?pattern={fresh}"
    accept = {"Accept": "application/cloudevents+json, text/event-stream"}
    async with (
        served.follow(f"{path}&format=cloudevents") as by_query,
        served.follow(path, headers=accept) as by_header,
    ):
        await place(by_query)
        await place(by_header)
        (number,) = await publish(served, fresh, {"n": 1}, key="k")
        for frames in (by_query, by_header):
            (found,) = await take(frames, 1)
            assert found.data["specversion"] == "1.0"
            assert (found.data["id"], found.data["type"]) == (number, fresh)
            assert (found.data["subject"], found.data["data"]) == ("k", {"n": 1})


async def test_cloudevents_of_streams_and_webhooks_are_valid_and_have_one_source(
    served: Web, fresh: str
) -> None:
    source = await served.platform.broker.source()
    assert source.startswith("urn:trunkline:")
    exact = "0.12345678901234567890123456789"
    path = f"/v1/broker/stream?pattern={fresh}&format=cloudevents"
    async with (
        served.client.stream("GET", path, headers=bearer(READER)) as answer,
        aclosing(answer.aiter_lines()) as lines,
    ):
        await anext(lines)
        body = (
            f'{{"topic": "{fresh}", "key": "k", "payload": {{"n": {exact}}},'
            f' "metadata": {{"traceparent": "{TRACE}", "by": "me"}}}}'
        )
        json_type = {"Content-Type": "application/json"}
        await served.ask(
            "POST", "/v1/broker/events", content=body, headers=json_type, role=WRITER, status=201
        )
        await served.platform.broker.tick()
        text = ""
        while not text.startswith("data: {"):
            text = await anext(lines)
    text = text.removeprefix("data: ")
    assert f'"data":{{"n": {exact}}}' in text
    event = JSONFormat().read(None, text)
    assert (event.get_source(), event.get_type(), event.get_subject()) == (source, fresh, "k")
    assert event.get_extension("traceparent") == TRACE


async def test_a_stream_whose_history_is_gone_says_so_and_goes_on(served: Web, fresh: str) -> None:
    path = f"/v1/broker/stream?pattern={fresh}"
    async with served.follow(path, last="OTk5LjE") as frames:  # of a life that never was
        (reset,) = await take(frames, 1)
        assert reset.event == "reset"
        await publish(served, fresh, "now")
        (found,) = await take(frames, 1)
    assert found.data["payload"] == "now"


async def test_a_wrong_stream_is_refused_before_it_begins(web: Web) -> None:
    wrong = {
        "after=rubbish": "token",
        "condition=e.colour": "colour",
        "condition={": "JSON",
        "params=[]": "params",
        "params={": "JSON",
        "format=xml": "format",
        "pattern=a*": "pattern",
    }
    for query, named in wrong.items():
        problem = await web.refused("GET", f"/v1/broker/stream?{query}", 422)
        assert named in problem["detail"]
    assert len(web.gateway.feeds) == 0
    await web.refused("GET", "/v1/broker/stream?after=MS4w", 403, role="pg_monitor")


async def test_a_group_reads_what_waits_and_commits_what_is_done(web: Web, fresh: str) -> None:
    subscription = await subscribed(web, fresh)
    await publish(web, fresh, {"n": 1}, {"n": 2}, key="k")
    await matched(web)
    path = f"/v1/broker/groups/{fresh}"
    first, second = (await web.ask("GET", f"{path}/events", role=READER))["events"]
    assert (first["payload"], second["payload"]) == ({"n": 1}, {"n": 2})
    assert first["subscriptions"] == [str(subscription)]
    assert (await web.ask("POST", f"{path}/read", role=READER))["events"] == [first, second]
    done = {"lane": first["lane"], "up_to": first["up_to"]}
    await web.ask("POST", f"{path}/commit", json=done, role=READER, status=204)
    assert (await web.ask("GET", f"{path}/events"))["events"] == [second]
    lag = await web.ask("GET", "/v1/broker/lag", params={"group": fresh})
    assert sum(lane["waiting"] for lane in lag) == 1
    moved = await web.ask("POST", f"{path}/seek", json={"to": "earliest"}, role=WRITER)
    assert {lane["up_to"] for lane in moved} == {"0"}
    assert len((await web.ask("GET", f"{path}/events"))["events"]) == 2
    await web.ask("POST", f"{path}/seek", json={"to": "latest"}, role=WRITER)
    assert (await web.ask("GET", f"{path}/events"))["events"] == []


async def test_a_lane_that_a_worker_has_is_not_committed_by_others(web: Web, fresh: str) -> None:
    await subscribed(web, fresh)
    await publish(web, fresh, 1)
    await matched(web)
    path = f"/v1/broker/groups/{fresh}"
    (event,) = (await web.ask("POST", f"{path}/read"))["events"]
    async with web.platform.transaction() as on:
        process = await web.platform.broker.process()
        await on.execute("select trunkline.broker_join(%s, '', %s)", (fresh, process))
    done = {"lane": event["lane"], "up_to": event["up_to"]}
    assert (await web.refused("POST", f"{path}/commit", 409, json=done))["code"] == "TL409"
    stale = {**done, "epoch": "0"}
    assert (await web.refused("POST", f"{path}/commit", 423, json=stale))["code"] == "TL423"


async def test_groups_and_subscriptions_are_made_shown_and_ended(web: Web, fresh: str) -> None:
    made = await web.ask("PUT", f"/v1/broker/groups/{fresh}", json={"lanes": 2}, role=WRITER)
    assert (made["group_name"], made["lanes"]) == (fresh, 2)
    number = await subscribed(web, fresh)
    assert await subscribed(web, fresh) == number
    other = {"group": fresh, "condition": {"topic": "other"}}
    await web.ask("POST", "/v1/broker/subscriptions", json=other, status=201)
    query = {"group": fresh, "limit": 1}
    first = await web.ask("GET", "/v1/broker/subscriptions", params=query)
    (found,) = first["subscriptions"]
    query["after"] = first["next"]
    second = await web.ask("GET", "/v1/broker/subscriptions", params=query)
    assert (len(second["subscriptions"]), second["next"]) == (1, None)
    assert (found["subscription"], found["state"]) == (str(number), "live")
    groups = await web.ask("GET", "/v1/broker/groups")
    assert [group["subscriptions"] for group in groups if group["group_name"] == fresh] == [2]
    path = f"/v1/broker/subscriptions/{number}"
    await web.ask("DELETE", path, role=WRITER, status=204)
    await web.refused("DELETE", path, 404, role=WRITER)
    await web.ask("DELETE", f"/v1/broker/groups/{fresh}", role=WRITER, status=204)
    await web.refused("GET", f"/v1/broker/groups/{fresh}/events", 404)


async def test_a_condition_is_explained_and_a_bad_one_refused(web: Web, fresh: str) -> None:
    question = {"condition": {"topic": fresh, "eq": {"payload.n": 1}}}
    found = await web.ask("POST", "/v1/broker/explain", json=question, role=READER)
    assert found["way"] in {"index", "scan"}
    bad = {"group": fresh, "condition": "pg_sleep(1) is null"}
    problem = await web.refused("POST", "/v1/broker/subscriptions", 422, json=bad)
    assert "pg_sleep" in problem["detail"]
    wrong = {"group": fresh, "expiry": "soon"}
    problem = await web.refused("POST", "/v1/broker/subscriptions", 422, json=wrong)
    assert "expiry" in problem["detail"]


async def dead_letter(web: Web, fresh: str) -> str:
    """An event that the handler of a group failed with for good."""
    await subscribed(web, fresh)
    await publish(web, fresh, {"n": 1}, key="k")
    await matched(web)
    (event,) = (await web.ask("POST", f"/v1/broker/groups/{fresh}/read"))["events"]
    bad = {"lane": event["lane"], "deliveries": [event["up_to"]], "error": "no"}
    await web.ask("POST", f"/v1/broker/groups/{fresh}/fail", json=bad)
    (letter,) = (await web.ask("GET", "/v1/broker/dead", params={"group": fresh}))["letters"]
    number: str = letter["retry"]
    return number


async def test_dead_letters_are_shown_tried_again_and_given_up(web: Web, fresh: str) -> None:
    number = await dead_letter(web, fresh)
    shown = await web.ask("GET", f"/v1/broker/dead/{number}", role=READER)
    assert (shown["payload"], shown["errors"][0]["error"]) == ({"n": 1}, "no")
    path = f"/v1/broker/dead/{number}"
    assert await web.ask("POST", f"{path}/retry", role=WRITER) == {"letters": 1}
    none = {"letters": [], "next": None}
    assert await web.ask("GET", "/v1/broker/dead", params={"group": fresh}) == none
    other = f"{fresh}_other"
    number = await dead_letter(web, other)
    await web.refused("DELETE", f"/v1/broker/dead/{number}", 403, role=READER)
    assert await web.ask("DELETE", f"/v1/broker/dead/{number}", role=WRITER) == {"letters": 1}
    await web.refused("GET", f"/v1/broker/dead/{number}", 404)
    every = {"group": other, "handler": ""}
    assert await web.ask("POST", "/v1/broker/dead/retry", json=every) == {"letters": 0}
    assert await web.ask("POST", "/v1/broker/dead/discard", json=every) == {"letters": 0}


async def test_what_became_of_an_event_is_told(web: Web, fresh: str) -> None:
    body = {"topic": fresh, "payload": 1}
    made = await web.ask("POST", "/v1/broker/events", json=body, status=201)
    (number,) = made["event_ids"]
    path = f"/v1/broker/events/{number}/why"
    hops = (await web.ask("GET", path, role=READER))["hops"]
    assert hops[0]["hop"] == "published"
    assert fresh in hops[0]["what"]
    as_text = f"/v1/broker/events/ev{0:014x}{int(number):016x}/why"
    assert (await web.ask("GET", as_text, role=READER))["hops"][0] == hops[0]
    await web.refused("GET", "/v1/broker/events/999999999/why", 404)
    await web.refused("GET", "/v1/broker/events/x/why", 422)
