"""The OpenAPI document: a schema for every answer, problems for every refusal, and who may ask.

Schemas of answers are made of the dataclasses that are answered, by the rules of `rendering`:
numbers that may be too wide for a double are strings, and so are durations and times.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from fastapi.openapi.utils import get_openapi

from trunkline.gateway import sse
from trunkline.gateway.problems import MEDIA_TYPE
from trunkline.gateway.rendering import WIDE

if TYPE_CHECKING:
    from fastapi import FastAPI

    from trunkline.gateway.gateway import Gateway

Schema = dict[str, Any]

_NAMES = {
    "datetime": datetime,
    "timedelta": timedelta,
    "UUID": UUID,
    "Any": Any,
    "Mapping": Mapping,
}
_PLAIN: dict[Any, Schema] = {
    Any: {},
    object: {},
    type(None): {"type": "null"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    datetime: {"type": "string", "format": "date-time"},
    timedelta: {"type": "string", "examples": ["7d", "1h 30m"]},
    UUID: {"type": "string", "format": "uuid"},
    bytes: {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {"base64": {"type": "string"}},
                "required": ["base64"],
            },
        ]
    },
}
_OPEN = frozenset({"/healthz", "/metrics"})
_components: dict[str, Schema] = {}

_PROBLEM: Schema = {
    "type": "object",
    "description": "RFC 9457, and the facts of the error beside it.",
    "properties": {
        "type": {"type": "string", "examples": ["urn:trunkline:TL404"]},
        "title": {"type": "string"},
        "status": {"type": "integer", "examples": [404]},
        "detail": {"type": "string", "description": "What was expected, and what came."},
        "code": {"type": "string", "pattern": "^TL[0-9]{3}$", "examples": ["TL404"]},
        "hint": {"type": "string", "description": "What to do."},
    },
    "required": ["type", "title", "status", "detail", "code"],
    "additionalProperties": True,
}
_PROBLEMS: Schema = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_WAIT: Schema = {
    "Retry-After": {
        "description": "Seconds to wait, where a quota of the role is used up (TL429).",
        "schema": {"type": "integer"},
    }
}
_SECURITY: Schema = {
    "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "accessToken": {
        "type": "apiKey",
        "in": "query",
        "name": "access_token",
        "description": "For EventSource, which cannot send headers.",
    },
}


@dataclass(frozen=True, slots=True)
class Maybe:
    """A member of an answer that may be missing."""

    shape: Any


def without(model: type, *names: str) -> dict[str, Any]:
    """The shape of a dataclass without some of its fields."""
    hints = _hints(model)
    return {name: hint for name, hint in hints.items() if name not in names}


def answer(
    shape: Any, status: int = 200, *, more: Mapping[int, Any] | None = None
) -> dict[int | str, Any]:
    """The ``responses`` of a route that answers JSON of this shape.

    A shape is a type, a dataclass, a dict of names and shapes, or a list of one shape.
    ``more`` has further statuses with their shapes.
    """
    shapes = {status: shape, **(more or {})}
    return {each: _described(each, one) for each, one in shapes.items()}


def streamed(
    description: str = "Server-sent events, until one side ends it.",
) -> dict[int | str, Any]:
    """The ``responses`` of a route that answers server-sent events."""
    return {200: {"description": description, **content({sse.MEDIA_TYPE: str})}}


def content(shapes: Mapping[str, Any]) -> Schema:
    """The ``content`` of an answer by media type."""
    return {"content": {kind: {"schema": schema_of(shape)} for kind, shape in shapes.items()}}


def _described(status: int, shape: Any) -> Schema:
    description = {"description": HTTPStatus(status).phrase}
    return description if status == 304 else description | content({"application/json": shape})


def schema_of(shape: Any, name: str = "") -> Schema:
    """The JSON schema of a shape; ``name`` is that of the member that has it."""
    if isinstance(shape, Maybe):
        return schema_of(shape.shape, name)
    if isinstance(shape, dict):
        return _object(shape)
    if isinstance(shape, list):
        return {"type": "array", "items": schema_of(shape[0])}
    if is_dataclass(shape) and isinstance(shape, type):
        return _component(shape)
    if isinstance(shape, type) and issubclass(shape, Enum):
        return {"type": "string", "enum": [each.value for each in shape]}
    if shape is int and name in WIDE:
        return {"type": "string", "pattern": "^-?[0-9]+$"}
    if shape in _PLAIN:
        return dict(_PLAIN[shape])
    return _generic(shape, name)


def _generic(shape: Any, name: str) -> Schema:
    origin, parts = get_origin(shape), get_args(shape)
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(part, name) for part in parts]}
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (list, tuple):
        items = schema_of(parts[0])
        return {"type": "array", "items": _PLAIN[str] if parts[0] is int else items}
    assert origin in (dict, Mapping), f"there is no schema for {shape}"
    return {"type": "object", "additionalProperties": schema_of(parts[1])}


def _component(model: type) -> Schema:
    name = model.__name__
    if name not in _components:
        _components[name] = {}  # it may contain itself
        _components[name] = _object(_hints(model))
    return {"$ref": f"#/components/schemas/{name}"}


def _hints(model: type) -> dict[str, Any]:
    hints = get_type_hints(model, localns=_NAMES)
    return {field.name: hints[field.name] for field in fields(model)}


def _object(shapes: Mapping[str, Any]) -> Schema:
    return {
        "type": "object",
        "properties": {name: schema_of(shape, name) for name, shape in shapes.items()},
        "required": [name for name, shape in shapes.items() if not isinstance(shape, Maybe)],
    }


def document(app: FastAPI, gateway: Gateway) -> Schema:
    """The document of the application."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        for path, operations in made["paths"].items():
            for operation in operations.values():
                _complete(operation, secured=path not in _OPEN, open_to_all=_open(gateway))
        components = made.setdefault("components", {})
        schemas = components.setdefault("schemas", {})
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        schemas.update(_components, Problem=_PROBLEM)
        components["securitySchemes"] = _SECURITY
        app.openapi_schema = made
    return app.openapi_schema


def _complete(operation: Schema, *, secured: bool, open_to_all: bool) -> None:
    """Add what all operations have in common: refusals, and who may ask."""
    answers = operation["responses"]
    answers.pop("422", None)
    for status, described in answers.items():
        found = described.get("content", {})
        if len(found) > 1 and found.get("application/json") == {"schema": {}}:
            del found["application/json"]  # of FastAPI, which knows nothing better
        if status[0] == "4":
            found.update(_PROBLEMS)
    answers["4XX"] = {"description": "Refused", "headers": _WAIT, "content": _PROBLEMS}
    answers["5XX"] = {"description": "Failed", "content": _PROBLEMS}
    if secured:
        anonymous: list[Schema] = [{}] if open_to_all else []
        operation["security"] = [*({name: []} for name in _SECURITY), *anonymous]


def _open(gateway: Gateway) -> bool:
    """Whether requests without a token are served."""
    return gateway.insecure or gateway.settings.anonymous_role is not None
