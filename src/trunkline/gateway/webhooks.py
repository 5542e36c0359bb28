"""``/v1/broker/webhooks``: where events are posted to."""

from __future__ import annotations

import base64
import secrets
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from trunkline.broker import endpoints
from trunkline.broker import webhook_calls as calls
from trunkline.core.errors import Invalid, NotFound
from trunkline.gateway.bodies import Body, Condition, Duration, Params
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.openapi import Maybe, answer
from trunkline.gateway.rendering import Answer, rows

router = APIRouter(prefix="/v1/broker/webhooks", tags=["webhooks"])

Webhook = Annotated[int, Path(description="The number of the webhook.")]
Secret = Annotated[
    str | None, Field(description="Signs messages: base64 of 24 to 64 bytes.", repr=False)
]
Sign = Annotated[bool, Field(description="Make a secret, and tell it once.")]


_MADE = {"webhook": str, "secret": Maybe(str)}


class NewWebhook(Body):
    """Which events go where, and how; what is left out has its default."""

    group: str
    url: Annotated[str, Field(examples=["https://shop.example/hook"])]
    condition: Condition = None
    params: Params = None
    secret: Secret = None
    sign: Sign = False
    headers: Annotated[
        dict[str, str] | None,
        Field(description="Sent with each request, and never shown.", repr=False),
    ] = None
    retry: Annotated[list[Duration] | None, Field(description="Waits before each further try.")] = (
        None
    )
    timeout: Annotated[Duration | None, Field(description="For the whole answer.")] = None
    batch: Annotated[int | None, Field(ge=1, description="Events in one request.")] = None
    format: Annotated[str | None, Field(description="standard or cloudevents.")] = None
    concurrency: Annotated[int | None, Field(ge=1, description="Requests at once.")] = None
    ordering: Annotated[str | None, Field(description="strict or skip.")] = None


class Rotation(Body):
    """Another secret; the one before signs along for the overlap, a day."""

    secret: Secret = None
    sign: Sign = False
    overlap: Duration | None = None


class Pause(Body):
    """Why nothing is sent."""

    reason: str | None = None


@router.get("", summary="The webhooks", responses=answer([endpoints.Webhook]))
async def webhooks(
    me: Me, group: Annotated[str | None, Query(description="None: of all groups.")] = None
) -> Response:
    """With their state; of secrets only how many, of headers only their names."""
    return Answer(rows(await me.run(calls.webhooks(group))))


@router.post("", summary="Add a webhook", status_code=201, responses=answer(_MADE, 201))
async def add(me: Me, what: NewWebhook) -> Response:
    """Events are posted from now on; answers its number, and the secret that was made."""
    secret = _secret(what.secret, sign=what.sign)
    given = what.model_dump(exclude={"group", "url", "secret", "sign"})
    number = await me.run(calls.add(what.group, what.url, secret=secret, **given))
    made = {"secret": secret} if what.sign else {}
    return Answer({"webhook": str(number), **made}, 201)


@router.post("/{webhook:int}/rotate", summary="Change the secret", responses=answer(_MADE))
async def rotate(me: Me, webhook: Webhook, what: Rotation) -> Response:
    """Answers the secret, if it was made."""
    secret = _secret(what.secret, sign=what.sign)
    if secret is None:
        raise Invalid("say which: secret, or sign to have one made.")
    await me.run(calls.rotate(webhook, secret, overlap=what.overlap))
    made = {"secret": secret} if what.sign else {}
    return Answer({"webhook": str(webhook), **made})


@router.post("/{webhook:int}/pause", summary="Pause a webhook", responses=answer({"changed": bool}))
async def pause(me: Me, webhook: Webhook, why: Pause | None = None) -> Response:
    """Nothing is sent until it is resumed; answers whether it was not paused before."""
    reason = None if why is None else why.reason
    return Answer({"changed": await me.run(calls.pause(webhook, reason))})


@router.post(
    "/{webhook:int}/resume", summary="Resume a webhook", responses=answer({"changed": bool})
)
async def resume(me: Me, webhook: Webhook) -> Response:
    """It is sent again, from where it was paused; answers whether it was."""
    return Answer({"changed": await me.run(calls.resume(webhook))})


@router.delete("/{webhook:int}", summary="Remove a webhook", status_code=204)
async def remove(me: Me, webhook: Webhook) -> Response:
    """With all that belongs to it."""
    if not await me.run(calls.remove(webhook)):
        raise NotFound(f"there is no webhook {webhook}.")
    return Response(status_code=204)


@router.get("/log", summary="What was sent", responses=answer([endpoints.WebhookEntry]))
async def whole_log(
    me: Me,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    before: Annotated[int | None, Query(description="Older than this entry.")] = None,
) -> Response:
    """And what was answered, of all webhooks; the newest first."""
    return Answer(rows(await me.run(calls.log(max_entries=limit, before=before))))


@router.get(
    "/{webhook:int}/log", summary="What was sent by one", responses=answer([endpoints.WebhookEntry])
)
async def log(
    me: Me,
    webhook: Webhook,
    limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    before: Annotated[int | None, Query(description="Older than this entry.")] = None,
) -> Response:
    """And what was answered; the newest first."""
    return Answer(rows(await me.run(calls.log(webhook, max_entries=limit, before=before))))


def _secret(given: str | None, *, sign: bool) -> str | None:
    if not sign:
        return given
    if given is not None:
        raise Invalid("secret or sign, not both.")
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
