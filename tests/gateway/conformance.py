"""Whether what a gateway answers fits its OpenAPI document."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from trunkline.gateway.app import make_app

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx

    from trunkline.gateway.gateway import Gateway

_WHOLE = ("key", "table", "object")  # parameters that may have slashes


class Conformance:
    """The document of an application, and checks by it."""

    def __init__(self, document: dict[str, Any]):
        self.document = document
        self._paths = [(_pattern(path), found) for path, found in document["paths"].items()]

    def check(self, answer: httpx.Response) -> None:
        """Fail for an answer that the document does not describe."""
        described = self._responses(answer.request.method, answer.request.url.path)
        if described is None:
            return
        status = str(answer.status_code)
        assert status in described or f"{status[0]}XX" in described, f"undocumented {status}"
        content = described.get(status, described.get(f"{status[0]}XX")).get("content")
        if content is None:
            assert not answer.content
            return
        kind = answer.headers["content-type"].partition(";")[0]
        assert kind in content, f"{kind} is none of {list(content)}"
        if kind.endswith("json"):
            schema = {**content[kind]["schema"], "components": self.document["components"]}
            jsonschema_rs.validator_for(schema).validate(answer.json())

    def _responses(self, method: str, path: str) -> Mapping[str, Any] | None:
        for pattern, operations in self._paths:
            if pattern.fullmatch(path) and method.lower() in operations:
                responses: dict[str, Any] = operations[method.lower()]["responses"]
                return responses
        return None


_found: list[Conformance] = []


def conformance_of(gateway: Gateway) -> Conformance:
    """The checks of the tests, made once: all gateways answer alike."""
    if not _found:
        _found.append(Conformance(make_app(gateway).openapi()))
    return _found[0]


def _pattern(path: str) -> re.Pattern[str]:
    def one(found: re.Match[str]) -> str:
        return ".+" if found[1] in _WHOLE else "[^/]+"

    return re.compile(re.sub(r"\\\{(\w+)\\\}", one, re.escape(path)))
