"""The JSON form of conditions: what it means, and that it never fails."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fixtures.asking import ask, refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Session = psycopg.Connection[Any]
Document = dict[str, Any]

MISSING = object()
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
}


@pytest.fixture(scope="module")
def session(shared_dsn: str) -> Iterator[Session]:
    with closing(psycopg.connect(shared_dsn, autocommit=True)) as opened:
        yield opened


def event(payload: Any = None, **given: Any) -> Document:
    return {"topic": "t", "key": None, "metadata": None, "payload": payload} | given


def matched(session: Session, form: Document, events: Sequence[Document]) -> list[Any]:
    """What the compiled condition says of each event."""
    row = session.execute(
        "select expression, constants, event_key, subscription_key"
        " from trunkline._condition_compile(%s)",
        [json.dumps(form)],
    ).fetchone()
    assert row is not None
    expression, constants, event_key, subscription_key = row
    found = "true"
    if event_key is not None:
        found = " = ".join(
            f"hash_record_extended({key}, 0)" for key in (event_key, subscription_key)
        )
    query = (
        f"select {expression}, {found} from unnest(%(topics)s::text[], %(keys)s::text[],"
        " %(payloads)s::jsonb[], %(metadata)s::jsonb[]) with ordinality"
        " e (topic, key, payload, metadata, place),"
        " (select jsonb_build_object('c', %(constants)s::jsonb) as params) s order by place"
    )
    rows = session.execute(
        query.encode(),
        {
            "topics": [e["topic"] for e in events],
            "keys": [e["key"] for e in events],
            "payloads": [json.dumps(e["payload"]) for e in events],
            "metadata": [
                None if e["metadata"] is None else json.dumps(e["metadata"]) for e in events
            ],
            "constants": json.dumps(constants),
        },
    )
    answers = rows.fetchall()
    assert all(found for said, found in answers if said), "the look-up by hash would miss a match"
    return [said for said, _ in answers]


# The same in Python, to compare with


def holds(form: Document, subject: Document) -> bool:
    return all(member(word, value, subject) for word, value in form.items())


def member(word: str, value: Any, subject: Document) -> bool:
    match word:
        case "topic":
            patterns = [value] if isinstance(value, str) else value
            return any(fits(subject["topic"].split("."), p.split(".")) for p in patterns)
        case "key":
            return subject["key"] in value if isinstance(value, list) else subject["key"] == value
        case "and":
            return all(holds(form, subject) for form in value)
        case "or":
            return any(holds(form, subject) for form in value)
        case "not":
            return not holds(value, subject)
    return all(compared(word, look(subject, path), wanted) for path, wanted in value.items())


def compared(word: str, found: Any, wanted: Any) -> bool:
    if found is MISSING:
        return False
    match word:
        case "eq":
            return equal(found, wanted)
        case "in":
            return any(equal(found, one) for one in wanted)
        case "contains":
            return contains(found, wanted, top=True)
    return all(
        kind(found) == kind(bound) and COMPARE[op](found, bound) for op, bound in wanted.items()
    )


def look(subject: Document, path: str) -> Any:
    first, *names = path.split(".")
    value = subject[first]
    if value is None and first in ("key", "metadata"):
        return MISSING
    for name in names:
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return MISSING
    return value


def kind(value: Any) -> str:
    return "number" if type(value) in (int, float) else type(value).__name__


def equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return kind(a) == kind(b) and a == b


def contains(a: Any, b: Any, *, top: bool = False) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return all(name in a and contains(a[name], b[name]) for name in b)
    if isinstance(a, list) and isinstance(b, list):
        return all(any(contains(one, other) for one in a) for other in b)
    if top and isinstance(a, list) and not isinstance(b, dict):
        return any(equal(one, b) for one in a)
    return equal(a, b)


def fits(words: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(fits(words[n:], pattern[1:]) for n in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and fits(words[1:], pattern[1:])


names = st.sampled_from(["a", "b", "0"])
texts = st.sampled_from(["", "a", "b", "ab", "a.b"])
numbers = st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -0.0, 1e20])
scalars = st.none() | st.booleans() | numbers | texts
documents = st.recursive(
    scalars, lambda d: st.lists(d, max_size=3) | st.dictionaries(names, d, max_size=3), max_leaves=6
)
topics = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map(".".join)
patterns = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=3).map(".".join)
paths = st.builds(
    lambda first, rest: ".".join([first, *rest]),
    st.sampled_from(["payload", "metadata"]),
    st.lists(names, max_size=2),
)
events = st.builds(
    event,
    payload=documents,
    topic=topics,
    key=st.none() | texts,
    metadata=st.none() | st.dictionaries(names, documents, max_size=2),
)
bounds = st.one_of(
    st.dictionaries(st.sampled_from(list(COMPARE)), values, min_size=1, max_size=2)
    for values in (numbers, texts)
)
plain = st.one_of(
    st.fixed_dictionaries({"topic": patterns | st.lists(patterns, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"key": st.none() | texts | st.lists(texts, min_size=1, max_size=2)}),
    st.fixed_dictionaries({"eq": st.dictionaries(paths, documents, min_size=1, max_size=2)}),
    st.fixed_dictionaries(
        {"in": st.dictionaries(paths, st.lists(scalars, min_size=1, max_size=3), min_size=1)}
    ),
    st.fixed_dictionaries({"contains": st.dictionaries(paths, documents, min_size=1, max_size=2)}),
    st.fixed_dictionaries({"range": st.dictionaries(paths, bounds, min_size=1, max_size=2)}),
)
forms = st.recursive(
    plain,
    lambda f: st.one_of(
        st.fixed_dictionaries({"and": st.lists(f, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"or": st.lists(f, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"not": f}),
        st.tuples(f, f).map(lambda two: two[0] | two[1]),
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(form=forms, subjects=st.lists(events, min_size=1, max_size=20))
def test_the_database_and_a_plain_evaluator_agree(
    session: Session, form: Document, subjects: list[Document]
) -> None:
    assert matched(session, form, subjects) == [holds(form, subject) for subject in subjects]


ODD_PAYLOADS = [
    None,
    True,
    5,
    -1.5,
    "",
    "x",
    [],
    [1, "x"],
    [[{}]],
    {},
    {"a": None},
    {"a": {"b": 5}},
]


@pytest.mark.parametrize(
    "form",
    [
        {"eq": {"payload.a.b": 5}},
        {"eq": {"payload": {"a": None}}},
        {"in": {"payload.a": [None, 5]}},
        {"range": {"payload.a.b": {"gte": 5, "lt": 6}}},
        {"contains": {"payload.a": {"b": 5}}},
        {"contains": {"payload": 1}},
        {"not": {"eq": {"metadata.a": 1}}},
        {"or": [{"eq": {"payload.0": 1}}, {"key": "k"}]},
    ],
)
def test_no_payload_makes_it_fail_or_leaves_it_open(session: Session, form: Document) -> None:
    said = matched(session, form, [event(payload) for payload in ODD_PAYLOADS])
    assert said == [holds(form, event(payload)) for payload in ODD_PAYLOADS]


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("orders", ["orders"], ["orders.new", "Orders", "order", "xorders"]),
        ("orders.*", ["orders.new"], ["orders", "orders.", "orders.new.eu", "ordersxnew"]),
        ("orders.#", ["orders", "orders.new", "orders.new.eu"], ["orders2", "ordersx.new"]),
        ("#", ["orders", "orders.new", "."], []),
        ("*", ["orders"], ["orders.new"]),
        ("#.eu", ["eu", "orders.new.eu"], ["neu", "eu.orders"]),
        ("orders.#.eu", ["orders.eu", "orders.new.eu"], ["orders", "orders.neu"]),
        ("orders.*.eu", ["orders.new.eu"], ["orders.eu", "orders.a.b.eu"]),
        ("a+b.(c)[d]{2}|$^\\", ["a+b.(c)[d]{2}|$^\\"], ["aab.c", ""]),
        ("größe.*", ["größe.新"], ["groesse.x"]),
        ("*.#", ["a", "a.b"], []),
        ("100%.*", ["100%.x"], ["100.x"]),
    ],
)
def test_wildcards_stand_for_whole_words(
    session: Session, pattern: str, fitting: list[str], other: list[str]
) -> None:
    said = matched(session, {"topic": pattern}, [event(topic=t) for t in fitting + other])
    assert said == [True] * len(fitting) + [False] * len(other)
    for topic in fitting + other:
        query = "select trunkline.broker_topic_matches(%s, %s)"
        assert ask(session, query, [topic, pattern]) is (topic in fitting)


REFUSED: dict[str, str] = {
    '{"topic": []}': '"topic" is a string or a list',
    '{"topic": 5}': '"topic" is a string or a list',
    '{"topic": ["a", null]}': '"topic" is a string or a list',
    '{"topic": ""}': "not a pattern",
    '{"topic": "orders*"}': "not a pattern",
    '{"topic": "orders.**"}': "not a pattern",
    '{"key": 5}': "a string or null",
    '{"key": []}': "a list of strings",
    '{"key": [5]}': "a list of strings",
    '{"eq": {}}': "not empty",
    '{"eq": 5}': "not empty",
    '{"eq": {"topic": 1}}': "a string",
    '{"eq": {"total": 1}}': "not a place in an event",
    '{"eq": {"payload..a": 1}}': "not a place in an event",
    '{"eq": {"payload\' or true": 1}}': "not a place in an event",
    '{"eq": {"[1": 1}}': "not a place in an event",
    '{"eq": {"[null]": 1}}': "not a place in an event",
    '{"in": {"payload.a": 5}}': "a list of strings, numbers",
    '{"in": {"payload.a": []}}': "a list of strings, numbers",
    '{"in": {"payload.a": [[1]]}}': "a list of strings, numbers",
    '{"contains": {"key": "x"}}': "payload and metadata",
    '{"range": {"payload.a": 5}}': '"range" has for each place',
    '{"range": {"payload.a": {}}}': '"range" has for each place',
    '{"range": {"payload.a": {"ge": 1}}}': '"range" has for each place',
    '{"range": {"payload.a": {"gt": null}}}': "a string or a number",
    '{"and": []}': '"and" is a list',
    '{"or": {"key": "a"}}': '"or" is a list',
    '{"or": ["true"]}': "a condition is a JSON object",
    '{"not": []}': "a condition is a JSON object",
    '{"sql": "true"}': 'no member "sql"',
    '{"topic": "a"': "is not JSON",
    "{}{}": "is not JSON",
    '{"topic": "\\u0000"}': "is not JSON",
    '{"not":' * 21 + "{}" + "}" * 21: "nested deeper",
    '{"not":' * 1200 + "{}" + "}" * 1200: "nested deeper",
}


@pytest.mark.parametrize(("form", "words"), REFUSED.items(), ids=lambda text: text[:30])
def test_a_form_that_means_nothing_is_refused_with_what_was_expected(
    session: Session, form: str, words: str
) -> None:
    with refused("TL422") as caught:
        session.execute("select trunkline.broker_subscribe('watchers', %s)", [form])
    assert words in str(caught.value)


def test_names_with_dots_and_quotes_are_written_as_json(session: Session) -> None:
    form = {"eq": {'["payload", "a.b", "it\'s \\"x\\", {y}"]': 1}}
    assert matched(session, form, [event({"a.b": {'it\'s "x", {y}': 1}}), event({"a": 1})]) == [
        True,
        False,
    ]


def test_forms_that_differ_in_constants_share_one_condition(session: Session) -> None:
    with session.transaction(force_rollback=True):
        for form in (
            {"topic": "orders", "eq": {"payload.tenant": 1}},
            {"eq": {"payload.tenant": {"x": "it's 100%"}}, "topic": "invoices"},
        ):
            session.execute(
                "select trunkline.broker_subscribe('one shape', %s)", [json.dumps(form)]
            )
        ours = (
            "select c.event_key, s.key_hash from trunkline.broker_subscription s"
            " join trunkline.broker_condition c using (condition_id)"
            " join trunkline.broker_group g using (group_id) where g.group_name = 'one shape'"
        )
        keys, hashes = zip(*session.execute(ours), strict=True)
        assert set(keys) == {"row((e.payload #> '{tenant}'::text[]), e.topic)"}
        assert len(set(hashes)) == 2
