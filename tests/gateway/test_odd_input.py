"""Whatever is asked gets an answer, and never that something went wrong here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from tests.gateway.serving import Web

NAMES = ["a\0b", "1.2.3.4", 'a"b', "x" * 9000, str(2**63 - 1), str(2**63)]
TEXTS = ["", "a\0b", "no.such", "a.b.c", "1.2.3.4", 'a"b', "x" * 9000, "-1", str(2**31), str(2**63)]
VALUES: list[Any] = [None, True, -1, 2**63, "\0", "1.2.3.4", {}]
JSON = {"Content-Type": "application/json"}
OURS = ("/v1/log", "/v1/broker", "/v1/kv", "/v1/tube")


async def routes(web: Web) -> list[tuple[str, str, dict[str, Any]]]:
    document = (await web.raw("GET", "/openapi.json")).json()
    return [
        (method.upper(), path, told)
        for path, methods in document["paths"].items()
        if path.startswith(OURS) and not path.endswith(("/stream", "-watch"))
        for method, told in methods.items()
    ]


def filled(path: str, told: dict[str, Any], value: str) -> str:
    for parameter in told.get("parameters", ()):
        if parameter["in"] == "path":
            number = parameter["schema"].get("type") == "integer"
            given = value if not number or value.isdigit() else "1"
            path = path.replace(f"{{{parameter['name']}}}", quote(given or "x", safe=""))
    return path


async def test_odd_names_in_a_path_are_answered(web: Web) -> None:
    for method, path, told in await routes(web):
        for value in NAMES:
            if "{" in path:
                answer = await web.raw(method, filled(path, told, value))
                assert answer.status_code < 500, (method, path, value, answer.text)


async def test_odd_parameters_are_answered(web: Web) -> None:
    for method, path, told in await routes(web):
        for parameter in told.get("parameters", ()):
            if parameter["in"] == "query":
                for value in TEXTS:
                    answer = await web.raw(
                        method, filled(path, told, "odd"), params={parameter["name"]: value}
                    )
                    assert answer.status_code < 500, (method, path, parameter["name"], value)


async def test_odd_members_of_a_body_are_answered(web: Web) -> None:
    document = (await web.raw("GET", "/openapi.json")).json()
    for method, path, told in await routes(web):
        for name, required in members(document, told):
            for value in VALUES:
                body = {**required, name: value}
                answer = await web.raw(
                    method, filled(path, told, "odd"), content=json.dumps(body), headers=JSON
                )
                assert answer.status_code < 500, (method, path, body, answer.text)


def members(document: dict[str, Any], told: dict[str, Any]) -> list[tuple[str, Any]]:
    """The members of a body, each with those that must come along."""
    content = told.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    for kind in (schema, *schema.get("anyOf", ())):
        found = kind
        if "$ref" in kind:
            found = document["components"]["schemas"][kind["$ref"].rpartition("/")[2]]
        if "properties" in found:
            needed = found.get("required", ())
            required = {name: sample(found["properties"][name]) for name in needed}
            return [(name, required) for name in found["properties"]]
    return []


def sample(schema: dict[str, Any]) -> Any:
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) else kind
    values = {"integer": 1, "string": "odd", "array": ["odd"], "object": {}}
    return values.get(kind, "odd")
