"""OpenSearch or Elasticsearch: one index, written with ``_bulk`` and external versions.

A document is the row plus the field ``_trunkline`` {relation, shard, key, version}; its id is
``relation:shard:key`` (a hash where that is too long for an id). The server itself refuses older
versions. It remembers the versions of deleted documents for ``index.gc_deletes``, which is a minute
unless somebody says otherwise: an index made here gets ``tombstone_seconds``; set it in your own.

What is written can be searched after the next refresh, which nobody waits for here.
"""

from __future__ import annotations

import gzip
import json
import ssl
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import httpx

from trunkline.core.errors import Invalid, NotFound, Unavailable
from trunkline.tube.downstreams.base import Downstream, Page, chunks, halved, identity, newest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trunkline.tube.models import Change, Version

_LONGEST_ID = 512  # bytes, a limit of the server
_MAPPING = {
    "properties": {
        "_trunkline": {
            "properties": {
                "relation": {"type": "keyword"},
                "shard": {"type": "integer"},
                "key": {"type": "keyword"},
                "version": {"type": "long"},
            }
        }
    }
}
_SORT = [{"_trunkline.version": "asc"}, {"_trunkline.shard": "asc"}, {"_trunkline.key": "asc"}]
_BULK = "?filter_path=errors,items.*._id,items.*.status,items.*.error.type,items.*.error.reason"
_BUSY = {429, 502, 503, 504}
# Refusals of a single item which are about the index or the cluster, whatever their status.
_NOT_THE_DOCUMENT = {
    "cluster_block_exception",
    "index_closed_exception",
    "index_not_found_exception",
    "security_exception",
}


class _Refused(Exception):
    """A whole request was refused; a part of it may be fine."""


class OpenSearchDownstream(Downstream):
    """Documents in an index; see the module."""

    def __init__(
        self,
        *,
        url: str,
        index: str,
        create: bool = True,
        routing: str | None = None,
        username: str | None = None,
        password: str = "",
        api_key: str | None = None,
        verify: bool | str = True,
        timeout: float = 30,
        body_bytes: int = 5 << 20,
        gzip_above: int = 8 << 10,
        tombstone_seconds: int = 3_600,
    ):
        """``routing`` is None or "shard"; ``verify`` False, or a file of certificates to trust."""
        if not index or index != index.lower() or any(c in index for c in '\\/*?"<>| ,#:'):
            raise Invalid(f'"{index}" is no name of an index.', hint="Lower case, without spaces.")
        if routing not in {None, "shard"}:
            raise Invalid(f'routing is "shard" or left out, got "{routing}".')
        for name, value in (("body_bytes", body_bytes), ("tombstone_seconds", tombstone_seconds)):
            if value < 1:
                raise Invalid(f"{name} must be at least 1, got {value}.")
        self._index = index
        self._create = create
        self._routing = routing
        self._body_bytes = body_bytes
        self._gzip_above = gzip_above
        self._tombstone_seconds = tombstone_seconds
        address = _address(url)
        self._options: dict[str, Any] = {
            "base_url": address,
            "auth": None if username is None else (username, password),
            "headers": {} if api_key is None else {"Authorization": f"ApiKey {api_key}"},
            "verify": ssl.create_default_context(cafile=verify)
            if isinstance(verify, str)
            else verify and address.scheme == "https",  # to read all certificates takes a while
            "timeout": timeout,
        }
        self._client: httpx.AsyncClient | None = None

    async def open(self) -> None:
        if self._client is not None:
            return
        self._client = httpx.AsyncClient(**self._options)
        try:
            await self._prepare()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def upsert(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def delete(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        return await self._write(changes)

    async def older_than(
        self, relation: str, shard: int | None, version: Version, after: str | None, limit: int
    ) -> Page:
        if after is None:  # what was written before must be in the listing
            await self._ask("POST", f"/{self._index}/_refresh")
        wanted: list[dict[str, Any]] = [
            {"term": {"_trunkline.relation": relation}},
            {"range": {"_trunkline.version": {"lt": version.number}}},
        ]
        if shard is not None:
            wanted.append({"term": {"_trunkline.shard": shard}})
        search: dict[str, Any] = {
            "size": limit,
            "query": {"bool": {"filter": wanted}},
            "sort": _SORT,
            "_source": ["_trunkline"],
            "track_total_hits": False,
        }
        if after is not None:
            search["search_after"] = json.loads(after)
        answer = await self._ask(
            "POST", f"/{self._index}/_search?allow_partial_search_results=false", search
        )
        hits = answer["hits"]["hits"]
        found = [hit["_source"]["_trunkline"] for hit in hits]
        more = json.dumps(hits[-1]["sort"]) if len(hits) == limit else None
        return Page([(about["shard"], about["key"]) for about in found], more)

    async def _prepare(self) -> None:
        """Have the index, and its mapping for what listings look at."""
        found = await self._request("HEAD", f"/{self._index}")
        if found.status_code == httpx.codes.NOT_FOUND:
            if not self._create:
                raise NotFound(
                    f'there is no index "{self._index}".',
                    hint='Make it, or let it be made with the option "create": true.',
                )
            settings = {"index.gc_deletes": f"{self._tombstone_seconds}s"}
            made = await self._request(
                "PUT", f"/{self._index}", {"settings": settings, "mappings": _MAPPING}
            )
            if made.is_success or "resource_already_exists" in made.text:
                return
            raise _refusal(made, f'index "{self._index}" cannot be made')
        if not found.is_success:
            raise Unavailable(f"OpenSearch answers {found.status_code} to HEAD /{self._index}.")
        mapped = await self._request("PUT", f"/{self._index}/_mapping", _MAPPING)
        if not mapped.is_success:
            raise _refusal(mapped, f'index "{self._index}" cannot hold the field _trunkline')

    async def _write(self, changes: Sequence[Change]) -> Mapping[Change, str]:
        lines: dict[Change, bytes] = {}
        failures: dict[Change, str] = {}
        for change in newest(changes):
            try:
                lines[change] = self._lines(change)
            except ValueError as error:
                failures[change] = str(error)
        parts = chunks(
            list(lines), map(len, lines.values()), most=len(lines), most_bytes=self._body_bytes
        )

        async def send(part: Sequence[Change]) -> Mapping[Change, str]:
            return await self._send(part, b"".join(lines[change] for change in part))

        for part in parts:
            failures |= await halved(part, send, refusals=(_Refused,))
        return failures

    def _lines(self, change: Change) -> bytes:
        """A change in the language of ``_bulk``; ValueError when it is no JSON object."""
        action: dict[str, Any] = {
            "_id": _id(change),
            "version": change.version.number,
            "version_type": "external_gte",
        }
        if self._routing == "shard":
            action["routing"] = str(change.shard)
        if change.document is None:
            return json.dumps({"delete": action}).encode() + b"\n"
        about = {
            "relation": change.relation,
            "shard": change.shard,
            "key": change.key,
            "version": change.version.number,
        }
        # Put in as text: parsing would cost time and the last digits of numbers. A line break in
        # JSON is white space, here it would end the document.
        document = change.document.replace("\n", " ").replace("\r", " ").strip()
        if not (document.startswith("{") and document.endswith("}")):
            raise ValueError(f"a document is a JSON object here, got: {document[:50]}")
        comma = "," if document[1:-1].strip() else ""
        line = f'{{"_trunkline":{json.dumps(about)}{comma}{document[1:]}\n'
        return json.dumps({"index": action}).encode() + b"\n" + line.encode()

    async def _send(self, changes: Sequence[Change], body: bytes) -> Mapping[Change, str]:
        headers = {"Content-Type": "application/x-ndjson"}
        if len(body) > self._gzip_above:
            body = gzip.compress(body, compresslevel=1)
            headers["Content-Encoding"] = "gzip"
        path = f"/{self._index}/_bulk{_BULK}"
        answer = await self._request("POST", path, content=body, headers=headers)
        if answer.status_code in {400, 413}:
            raise _Refused(f"{answer.status_code}: {_reason(answer)}")
        if not answer.is_success:
            raise Unavailable(f"OpenSearch answers {answer.status_code}: {_reason(answer)}")
        items = [next(iter(item.values())) for item in _json(answer).get("items", [])]
        if [item.get("_id") for item in items] != [_id(change) for change in changes]:
            raise Unavailable("OpenSearch answers for other documents than it was given.")
        pairs = zip(changes, items, strict=True)
        return {change: reason for change, item in pairs if (reason := _judged(item)) is not None}

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._request(method, path, body)
        if not answer.is_success:
            raise Unavailable(f"OpenSearch answers {answer.status_code}: {_reason(answer)}")
        return _json(answer)

    async def _request(
        self, method: str, path: str, body: Any = None, **options: Any
    ) -> httpx.Response:
        if self._client is None:
            raise Unavailable("the downstream is not open.")
        try:
            return await self._client.request(method, path, json=body, **options)
        except httpx.HTTPError as error:
            raise Unavailable(f"OpenSearch: {type(error).__name__} {error}".strip()) from error


def _address(url: str) -> httpx.URL:
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise Invalid(f"this is no address of an OpenSearch: {error}") from None
    if address.scheme not in {"http", "https"} or not address.host:
        raise Invalid("an address of an OpenSearch begins with http:// or https://.")
    return address


def _id(change: Change) -> str:
    text = identity(change)
    encoded = text.encode()
    return text if len(encoded) <= _LONGEST_ID else f"#{sha256(encoded).hexdigest()}"


def _judged(item: Mapping[str, Any]) -> str | None:
    """Why a document was refused; None when it, or something newer, is there."""
    error = item.get("error")
    if error is None:  # a delete of what is not there answers 404 without one
        return None
    kind, reason, status = error.get("type"), error.get("reason"), item.get("status")
    if kind == "version_conflict_engine_exception":
        return None
    if status in _BUSY or kind in _NOT_THE_DOCUMENT:
        raise Unavailable(f"OpenSearch answers {status}: {kind}: {reason}")
    return f"{kind}: {reason}"


def _refusal(answer: httpx.Response, what: str) -> Exception:
    reason = f"{what}: {answer.status_code} {_reason(answer)}"
    return Invalid(reason) if answer.status_code == httpx.codes.BAD_REQUEST else Unavailable(reason)


def _reason(answer: httpx.Response) -> str:
    try:
        error = answer.json()["error"]
        return f"{error['type']}: {error['reason']}"
    except (ValueError, LookupError, TypeError):
        return answer.text[:200]


def _json(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise Unavailable(f"OpenSearch answers no JSON: {answer.text[:200]}") from None
