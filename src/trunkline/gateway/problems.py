"""What becomes of errors: RFC 9457 problems, and the errors of GraphQL. The one table of statuses.

The tail of a code is its status: ``TL404`` is 404. What has no code of ours is 500, is written to
the log, and tells the client nothing.
"""

from __future__ import annotations

import inspect
from http import HTTPStatus
from math import ceil
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from graphql import GraphQLError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match

from trunkline.core import telemetry
from trunkline.core.errors import DatabaseError, Invalid, TrunklineError, Unavailable
from trunkline.gateway.rendering import facts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request

logger = telemetry.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_INTERNAL = "Something went wrong here; the log of the server says what."


class Unauthenticated(TrunklineError):
    """Authentication failed: there is no token, or it is not valid."""

    code = "TL401"


class TooSlow(TrunklineError):
    """What was announced did not come in time."""

    code = "TL408"


class UnsupportedBody(TrunklineError):
    """What was sent is of a kind that is not understood here."""

    code = "TL415"


class Full(Unavailable):
    """As many streams are open as this process serves."""


def problem(error: Exception) -> dict[str, Any]:
    """An error as the members of a problem."""
    if not isinstance(error, TrunklineError) or isinstance(error, DatabaseError):
        logger.error("request failed", error=error, exc_info=error)
        return {"type": "about:blank", "title": "Internal Server Error", "status": 500} | {
            "detail": _INTERNAL,
            "code": "TL500",
        }
    told = {
        "type": f"urn:trunkline:{error.code}",
        "title": (inspect.getdoc(type(error)) or "").splitlines()[0].rstrip("."),
        "status": int(error.code[2:]),
        "detail": telemetry.redact(error.message),
        "code": error.code,
    }
    if error.hint:
        told["hint"] = telemetry.redact(error.hint)
    return {**facts(error.details), **told}


def _of_arguments(fault: Mapping[str, Any], *, in_json: bool) -> Invalid:
    """What is wrong with a parameter or a member of a body, by its name."""
    where, message = fault["loc"][1:], fault.get("ctx", {}).get("error", fault["msg"])
    hint = ""
    match fault["type"]:
        case "json_invalid":
            where, message = (), f"it is not JSON: {message}"
        case "model_attributes_type":
            message = "it is a JSON object"
            hint = "" if in_json else "Send it with the header Content-Type: application/json."
        case "extra_forbidden":
            message = "there is no such name here"
    name = ".".join(str(part) for part in where) or fault["loc"][0]
    return Invalid(f"{name}: {message}".rstrip(".") + ".", hint=hint)


def respond(error: Exception) -> JSONResponse:
    """An error as the answer to a request."""
    body = problem(error)
    headers = {"WWW-Authenticate": "Bearer"} if body["status"] == 401 else {}
    if "retry_after" in body:
        headers["Retry-After"] = str(ceil(float(body["retry_after"])))
    return JSONResponse(body, body["status"], headers, MEDIA_TYPE)


def formatted(error: GraphQLError) -> dict[str, Any]:
    """An error of GraphQL; what was raised by us has its code and its hint as extensions."""
    cause = error.original_error
    while isinstance(cause, GraphQLError):
        cause = cause.original_error
    if cause is None:
        return dict(error.formatted)
    told = problem(cause)
    kept = {name: value for name, value in told.items() if name not in {"type", "title", "detail"}}
    return {**error.formatted, "message": told["detail"], "extensions": kept}


def _methods(app: FastAPI, request: Request) -> list[str]:
    """The methods that the path of a request has."""
    found = [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in app.routes
        )
    ]
    return [*found, "HEAD"] if "GET" in found else found


def add_to(app: FastAPI) -> None:
    """Let every error of a request be answered as a problem."""

    async def ours(_request: Request, error: Exception) -> JSONResponse:
        return respond(error)

    async def of_http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)
        if error.status_code == 400:  # of FastAPI, for a body that it cannot read
            return respond(Invalid("body: it is not JSON."))
        found = {
            "type": "about:blank",
            "title": HTTPStatus(error.status_code).phrase,
            "status": error.status_code,
            "detail": error.detail,
            "code": f"TL{error.status_code}",
        }
        headers = dict(error.headers or {})
        if error.status_code == 405:
            headers["Allow"] = ", ".join(_methods(app, request))
        return JSONResponse(found, error.status_code, headers, MEDIA_TYPE)

    async def of_arguments(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        kind = request.headers.get("content-type", "")
        return respond(_of_arguments(error.errors()[0], in_json="json" in kind.lower()))

    app.add_exception_handler(TrunklineError, ours)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_arguments)
    app.add_exception_handler(Exception, ours)
