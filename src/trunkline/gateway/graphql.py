"""``/graphql``: queries by POST or GET, subscriptions as server-sent events or by WebSocket.

Server-sent events are those of the protocol graphql-sse with a connection for each operation.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response, WebSocket
from starlette.responses import JSONResponse

from trunkline.core.errors import BadRequest, TooLarge
from trunkline.gateway import operations, sse
from trunkline.gateway.auth import token_of
from trunkline.gateway.gateway import HEARTBEAT
from trunkline.gateway.openapi import Maybe, content
from trunkline.gateway.operations import Operation, Refused
from trunkline.gateway.problems import Full, UnsupportedBody
from trunkline.gateway.reading import read_json
from trunkline.gateway.subscribing import Asking
from trunkline.gateway.websocket import Conversation

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from graphql import ExecutionResult

    from trunkline.gateway.gateway import Gateway

LARGEST = 1 << 20  # bytes of a request

_RESPONSE = "application/graphql-response+json"
_RESULT = {"data": Maybe(dict[str, Any] | None), "errors": Maybe(list[dict[str, Any]])}
_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "OK",
        **content({"application/json": _RESULT, _RESPONSE: _RESULT, sse.MEDIA_TYPE: str}),
    },
    400: {"description": "Bad Request", **content({_RESPONSE: _RESULT})},
}
_OPERATION = {
    "query": str,
    "variables": Maybe(dict[str, Any] | None),
    "operationName": Maybe(str | None),
}
_BODY = {"requestBody": {"required": True, **content({"application/json": _OPERATION})}}
_PARAMETERS = {
    "parameters": [
        {"name": name, "in": "query", "required": name == "query", "schema": {"type": "string"}}
        for name in _OPERATION
    ]
}
_UNKEPT = {"Cache-Control": "no-store"}

router = APIRouter(tags=["graphql"])


@router.post(
    "/graphql", summary="Run an operation of GraphQL", responses=_ANSWERS, openapi_extra=_BODY
)
async def post(request: Request) -> Response:
    """A JSON object with `query`, `variables` and `operationName`.

    With `Accept: text/event-stream` the answer is a stream of the events `next` and `complete`.
    """
    gateway: Gateway = request.app.state.gateway
    asking = Asking(gateway, await gateway.admit(token_of(request)))
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise UnsupportedBody(
            f'the body is "{kind}".', hint="Expected content-type: application/json."
        )
    text = await _body(request)
    return await _answer(request, asking, Operation.parse(_read(text)))


@router.get(
    "/graphql",
    summary="Run an operation of GraphQL that is in the URL",
    responses=_ANSWERS,
    openapi_extra=_PARAMETERS,
)
async def get(request: Request) -> Response:
    """As POST, with `query`, `variables` and `operationName` as parameters."""
    gateway: Gateway = request.app.state.gateway
    asking = Asking(gateway, await gateway.admit(token_of(request)))
    return await _answer(request, asking, Operation.from_query(request.query_params))


@router.websocket("/graphql")
async def websocket(connection: WebSocket) -> None:
    """The protocol graphql-transport-ws."""
    await Conversation(connection.app.state.gateway, connection).run()


async def _answer(request: Request, asking: Asking, operation: Operation) -> Response:
    accepted = request.headers.get("accept", "")
    streams = sse.MEDIA_TYPE in accepted
    media_type = _RESPONSE if _RESPONSE in accepted else "application/json"
    try:
        prepared = await operations.prepare(asking, operation)
        if prepared.subscribes and not streams:
            raise BadRequest(
                "a subscription has more than one answer.",
                hint="Send Accept: text/event-stream, or use a WebSocket.",
            )
        if prepared.subscribes:
            results = await operations.begin(asking, prepared)
            frames = sse.with_comments(_frames(results), every=HEARTBEAT)
            return await sse.EventStream.begin(frames)
        told = operations.as_json(await operations.run(asking, prepared))
    except Refused as error:
        _raise_if_full(error)
        told = {"errors": operations.failures(error)}
        if not streams:
            status = 400 if media_type == _RESPONSE else 200
            return JSONResponse(told, status, _UNKEPT, media_type)
    if streams:
        return sse.EventStream(_once(told))
    return JSONResponse(told, 200, _UNKEPT, media_type)


async def _frames(results: AsyncGenerator[ExecutionResult, None]) -> AsyncGenerator[str, None]:
    async with aclosing(results):
        yield sse.COMMENT  # whoever waits for the first byte knows that it has begun
        try:
            async for result in results:
                yield sse.frame(operations.as_json(result), event="next")
        except Exception as error:  # noqa: BLE001 - told to whoever subscribed
            yield sse.frame({"errors": operations.failures(error)}, event="next")
    yield sse.frame(event="complete")


async def _once(told: dict[str, Any]) -> AsyncGenerator[str, None]:
    yield sse.frame(told, event="next")
    yield sse.frame(event="complete")


def _raise_if_full(refused: Refused) -> None:
    for error in refused.errors:
        if isinstance(error.original_error, Full):
            raise error.original_error


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST:
            raise TooLarge(f"a request has {LARGEST} bytes at most.", hint="Send less.")
    return bytes(body)


def _read(body: bytes) -> Any:
    try:
        return read_json(body.decode())
    except UnicodeDecodeError:
        raise BadRequest("the body is not UTF-8.") from None
