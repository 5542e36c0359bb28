"""Events as CloudEvents 1.0 and back."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from cloudevents.core.formats.json import JSONFormat
from hypothesis import given, settings
from hypothesis import strategies as st
from standardwebhooks import Webhook as Verifier
from tests.broker.receiving import SECRET, allow_private, receiving, sending
from tests.fixtures.asking import ask, refused

from trunkline.broker import cloudevents
from trunkline.broker.models import Event
from trunkline.core.errors import Invalid
from trunkline.testing import eventually

if TYPE_CHECKING:
    from tests.fixtures.asking import Session

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LEAST = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}

texts = st.text(max_size=20)
trace = st.sampled_from(["traceparent", "tracestate"])
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


def event(payload: Any = None, **given: Any) -> Event:
    values = {"key": None, "metadata": None, "subscription": None, "at": AT, **given}
    return Event(position=9, event_id=7, topic="orders.made", payload=payload, **values)


def test_an_event_has_every_attribute_that_the_specification_requires() -> None:
    made = cloudevents.to_cloudevent(
        event({"n": 1}, key="k", metadata={"traceparent": TRACE, "by": "me"}), "/shop"
    )
    assert made == {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop",
        "type": "orders.made",
        "subject": "k",
        "time": "2026-01-02T03:04:05.000678Z",
        "datacontenttype": "application/json",
        "traceparent": TRACE,
        "metadata": '{"by": "me"}',
        "data": {"n": 1},
    }


def test_what_is_not_there_is_left_out_and_data_of_null_is_there() -> None:
    made = cloudevents.to_cloudevent(event(None, key=""), "/s")
    assert "subject" not in made
    assert "metadata" not in made
    assert made["data"] is None


@settings(max_examples=60, deadline=None)
@given(plain, st.none() | texts, st.none() | st.dictionaries(texts | trace, plain, max_size=3))
def test_an_event_is_valid_for_the_sdk_however_it_is_written(
    payload: Any, key: str | None, metadata: dict[str, Any] | None
) -> None:
    loaded = event(payload, key=key, metadata=metadata)
    stored = replace(
        loaded,
        payload=json.dumps(payload),
        metadata=None if metadata is None else json.dumps(metadata),  # type: ignore[arg-type]
    )
    text = cloudevents.as_text(stored, "urn:trunkline:1:2")
    read = JSONFormat().read(None, text)
    assert (read.get_id(), read.get_source()) == ("7", "urn:trunkline:1:2")
    made = cloudevents.to_cloudevent(loaded, "urn:trunkline:1:2")
    there = json.loads(text)
    assert json.loads(there.pop("metadata", "{}")) == json.loads(made.pop("metadata", "{}"))
    assert there == made


@settings(max_examples=40, deadline=None)
@given(plain, st.none() | texts.filter(bool), st.none() | st.dictionaries(texts, plain, max_size=3))
def test_there_and_back_nothing_is_lost(
    payload: Any, key: str | None, metadata: dict[str, Any] | None
) -> None:
    there = cloudevents.to_batch([event(payload, key=key, metadata=metadata)], "/s")
    (back,) = cloudevents.from_json(json.dumps(there))
    assert (back.topic, back.payload, back.key) == ("orders.made", payload, key)
    about = (back.metadata or {}).pop("cloudevent")
    assert (about["id"], about["source"]) == ("7", "/s")
    assert back.metadata == {
        name: value for name, value in (metadata or {}).items() if name != "cloudevent"
    }


def test_what_others_add_is_kept_in_the_metadata() -> None:
    back = cloudevents.from_cloudevent({**LEAST, "time": "2026-01-01T00:00:00Z", "tenant": "x"})
    assert back.metadata == {
        "cloudevent": {"id": "1", "source": "/s", "time": "2026-01-01T00:00:00Z", "tenant": "x"}
    }


def test_data_in_base64_is_read_when_it_is_json_and_kept_when_it_is_not() -> None:
    as_json = cloudevents.from_cloudevent({**LEAST, "data_base64": "eyJuIjogMX0="})
    assert as_json.payload == {"n": 1}
    image = {**LEAST, "datacontenttype": "image/png", "data_base64": "iVBORw=="}
    kept = cloudevents.from_cloudevent(image)
    assert kept.payload == "iVBORw=="
    assert (kept.metadata or {})["cloudevent"]["datacontenttype"] == "image/png"


@pytest.mark.parametrize("source", ["my shop", "a\nb", "caf\u00e9", "50%", "<x>"])
def test_a_source_that_is_no_reference_is_refused(session: Session, source: str) -> None:
    with refused("TL422"):
        ask(session, "select trunkline.config_set('broker.source', %s)", [source])


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "as JSON"),
        ("7", "a JSON object, got int"),
        ("[null]", "a JSON object, got nothing"),
        (json.dumps({**LEAST, "id": ""}), 'the text "id"'),
        (json.dumps({**LEAST, "source": None}), 'the text "source", got nothing'),
        (json.dumps({**LEAST, "type": 7}), 'the text "type", got 7'),
        (json.dumps({**LEAST, "specversion": "0.3"}), "specversion 1.0, got '0.3'"),
        (json.dumps({**LEAST, "subject": 5}), "a subject is a text, got 5"),
        (json.dumps({**LEAST, "data_base64": "*"}), "is base64"),
        (json.dumps({**LEAST, "data_base64": "eA=="}), "not the JSON"),
        (json.dumps({**LEAST, "data": 1, "data_base64": "eA=="}), "not both"),
    ],
)
def test_what_is_no_cloudevent_is_refused_with_what_was_expected(document: str, said: str) -> None:
    with pytest.raises(Invalid, match=said.replace("(", r"\(")):
        cloudevents.from_json(document)


async def test_a_webhook_sends_cloudevents_when_asked_to_and_signs_them(
    clean_dsn: str, session: Session
) -> None:
    allow_private(session)
    session.execute("select trunkline.config_set('broker.source', '/shop')")
    with ExitStack() as opened:
        receiver = opened.enter_context(receiving())
        async with sending(clean_dsn) as (tl, _):
            await tl.broker.webhook_add("g", receiver.url, secret=SECRET, format="cloudevents")
            event_id = await tl.broker.publish("orders.made", {"n": 1}, key="k")
            await eventually(lambda: len(receiver.requests) == 1)
    (request,) = receiver.requests
    assert request.headers["content-type"] == "application/cloudevents-batch+json"
    (made,) = Verifier(SECRET).verify(request.body, request.headers)
    assert (made["id"], made["source"], made["type"]) == (str(event_id), "/shop", "orders.made")
    assert (made["subject"], made["data"]) == ("k", {"n": 1})


async def test_a_webhook_sends_numbers_as_they_were_published(
    clean_dsn: str, session: Session
) -> None:
    allow_private(session)
    numbers = f'{{"price": 12345678901234567890.12345678901234567890, "large": 1{"0" * 400}.5}}'
    with receiving() as receiver:
        async with sending(clean_dsn) as (tl, _):
            await tl.broker.webhook_add("g", receiver.url, format="cloudevents")
            session.execute("select trunkline.broker_publish('t', %s::jsonb)", [numbers])
            await eventually(lambda: len(receiver.requests) == 1)
    (made,) = json.loads(receiver.requests[0].body, parse_float=str)
    assert made["data"] == json.loads(numbers, parse_float=str)
