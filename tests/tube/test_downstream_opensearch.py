"""The OpenSearch downstream, against a small server of that language."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.opensearch import Index
from tests.fixtures.stores import ORDERS, SearchStore, change, opened

from trunkline.core.errors import Invalid, NotFound, Unavailable
from trunkline.testing import eventually
from trunkline.tube.downstreams.opensearch import OpenSearchDownstream
from trunkline.tube.models import Version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.fixtures.opensearch import SearchServer

    from trunkline.tube.downstreams.base import Downstream


@pytest.fixture
async def index(search_server: SearchServer) -> AsyncIterator[Downstream]:
    made = OpenSearchDownstream(url=search_server.url, index="rows", timeout=2)
    async with opened(made) as downstream:
        yield downstream


@pytest.mark.parametrize("status", [401, 429, 500, 502, 503, 504])
async def test_a_search_server_that_answers_with_an_error_is_trouble(
    search_server: SearchServer, index: Downstream, status: int
) -> None:
    search_server.whole.append((status, "some_exception", "not now"))
    with pytest.raises(Unavailable, match=f"{status}: some_exception: not now"):
        await index.upsert([change("1", {}, at=1), change("2", {}, at=1)])
    assert await index.upsert([change("1", {}, at=1), change("2", {}, at=1)]) == {}


async def test_a_search_server_that_does_not_answer_is_trouble(search_server: SearchServer) -> None:
    gate = threading.Event()
    async with opened(
        OpenSearchDownstream(url=search_server.url, index="rows", timeout=0.2)
    ) as downstream:
        search_server.gates.append(gate)
        with pytest.raises(Unavailable, match="ReadTimeout"):
            await downstream.upsert([change("1", {"n": 1}, at=1)])
        await downstream.upsert([change("1", {"n": 2}, at=2)])
        gate.set()  # now it takes up what was given up
        await eventually(lambda: len(search_server.bulks()) == 2)
    assert await SearchStore(search_server).documents() == {(ORDERS, 0, "1"): {"n": 2}}


async def test_requests_that_overtake_each_other_leave_the_newest(
    search_server: SearchServer, index: Downstream
) -> None:
    gate = threading.Event()
    search_server.gates.append(gate)
    late = asyncio.create_task(index.upsert([change("1", {"n": 1}, at=1), change("2", {}, at=1)]))
    await eventually(lambda: len(search_server.bulks()) == 1)
    assert await index.delete([change("1", at=2)]) == {}
    gate.set()
    assert await late == {}
    assert await SearchStore(search_server).documents() == {(ORDERS, 0, "2"): {}}


async def test_of_a_request_that_half_fails_the_failures_are_told_with_reasons(
    search_server: SearchServer, index: Downstream
) -> None:
    refusal = (400, "mapper_parsing_exception", "failed to parse field [total]")
    search_server.refuse = lambda id_: refusal if id_[-1] in "13579" else None
    changes = [change(str(n), {"n": n}, at=1) for n in range(10)]
    failures = await index.upsert(changes)
    assert list(failures) == changes[1::2]
    assert failures[changes[1]] == f"{refusal[1]}: {refusal[2]}"
    assert len(await SearchStore(search_server).documents()) == 5


@pytest.mark.parametrize(
    "refusal",
    [
        (429, "rejected_execution_exception", "queue full"),
        (503, "unavailable_shards_exception", "primary shard is not active"),
        (403, "cluster_block_exception", "disk usage exceeded flood-stage watermark"),
    ],
)
async def test_documents_refused_for_the_servers_sake_are_trouble(
    search_server: SearchServer, index: Downstream, refusal: tuple[int, str, str]
) -> None:
    search_server.refuse = lambda id_: refusal if id_.endswith("3") else None
    with pytest.raises(Unavailable, match=refusal[1]):
        await index.upsert([change(str(n), {}, at=1) for n in range(10)])


async def test_an_index_that_is_gone_is_trouble(
    search_server: SearchServer, index: Downstream
) -> None:
    search_server.indices.clear()
    for write in (index.upsert([change("1", {}, at=1)]), index.delete([change("1", at=1)])):
        with pytest.raises(Unavailable, match="no such index"):
            await write


async def test_bodies_are_bounded_packed_and_cut_further_when_refused(
    search_server: SearchServer,
) -> None:
    made = OpenSearchDownstream(url=search_server.url, index="rows", body_bytes=20_000)
    search_server.largest_body = 12_000
    async with opened(made) as downstream:
        changes = [change(str(n), {"text": "x" * 800}, at=1) for n in range(100)]
        changes[50] = change("50", {"text": "x" * 30_000}, at=1)
        failures = await downstream.upsert(changes)
    assert list(failures) == [changes[50]]
    assert failures[changes[50]].startswith("413")
    assert len(await SearchStore(search_server).documents()) == 99
    bulks = search_server.bulks()
    assert all(len(bulk.unpacked) <= 20_000 for bulk in bulks if b'"50"' not in bulk.unpacked)
    packed = [bulk for bulk in bulks if len(bulk.unpacked) > 8_192]
    assert packed
    assert all(bulk.headers["content-encoding"] == "gzip" for bulk in packed)
    assert all(len(bulk.body) < len(bulk.unpacked) / 4 for bulk in packed)


async def test_a_document_keeps_its_digits_and_says_where_it_is_from(
    search_server: SearchServer, index: Downstream
) -> None:
    text = '\n{ "n": 12345678901234567890.10,\n"m": 1 }\n'
    await index.upsert([change("1", text, at=1), change("2", " {} ", at=1)])
    [bulk] = search_server.bulks()
    assert b'"n": 12345678901234567890.10,' in bulk.unpacked
    about = {"relation": ORDERS, "shard": 0, "key": "2", "version": Version(1, 1).number}
    assert bulk.lines[2:] == [
        {
            "index": {
                "_id": "orders:0:2",
                "version": Version(1, 1).number,
                "version_type": "external_gte",
            }
        },
        {"_trunkline": about},
    ]


@pytest.mark.parametrize("document", ['"text"', "[1]", "1", "", "{", "nonsense"])
async def test_a_document_that_is_no_object_cannot_be_indexed(
    index: Downstream, document: str
) -> None:
    bad, good = change("1", document, at=1), change("2", {}, at=1)
    assert list(await index.upsert([bad, good])) == [bad]


async def test_broken_json_harms_only_itself(
    search_server: SearchServer, index: Downstream
) -> None:
    bad = change("1", '{"a": }', at=1)
    assert list(await index.upsert([bad, change("2", {}, at=1)])) == [bad]
    assert len(await SearchStore(search_server).documents()) == 1


async def test_routing_and_credentials_are_sent(search_server: SearchServer) -> None:
    for options, expected in (
        ({"username": "user", "password": "word"}, "Basic dXNlcjp3b3Jk"),
        ({"api_key": "a2V5"}, "ApiKey a2V5"),
        ({}, None),
    ):
        made = OpenSearchDownstream(
            url=search_server.url,
            index="rows",
            routing="shard",
            **options,  # type: ignore[arg-type]
        )
        async with opened(made) as downstream:
            await downstream.upsert([change("1", {}, at=1, shard=7)])
        bulk = search_server.bulks()[-1]
        assert bulk.headers.get("authorization") == expected
        assert bulk.lines[0]["index"]["routing"] == "7"


async def test_an_index_is_made_with_its_mapping_and_long_remembered_deletes(
    search_server: SearchServer, index: Downstream
) -> None:
    made = search_server.indices["rows"]
    assert made.settings == {"index.gc_deletes": "3600s"}
    assert made.properties["_trunkline"]["properties"]["version"] == {"type": "long"}


async def test_an_index_of_the_users_own_gets_the_mapping_or_a_clear_refusal(
    search_server: SearchServer,
) -> None:
    search_server.indices["mine"] = Index()
    async with opened(OpenSearchDownstream(url=search_server.url, index="mine")):
        assert "_trunkline" in search_server.indices["mine"].properties
    search_server.indices["mine"].properties["_trunkline"] = {"type": "text"}
    with pytest.raises(Invalid, match="cannot hold the field _trunkline"):
        await OpenSearchDownstream(url=search_server.url, index="mine").open()
    with pytest.raises(NotFound, match='no index "other"'):
        await OpenSearchDownstream(url=search_server.url, index="other", create=False).open()


@pytest.mark.parametrize(
    "options",
    [
        {"url": "redis://x"},
        {"index": "Upper"},
        {"index": "a b"},
        {"routing": "x"},
        {"body_bytes": 0},
    ],
)
def test_opensearch_refuses_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        OpenSearchDownstream(**{"url": "http://localhost", "index": "rows", **options})
