"""``/v1/objects`` and ``/v1/quotas``: owners, grants and quotas."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from pydantic import Field

from trunkline.core import objects as calls
from trunkline.gateway.bodies import Body
from trunkline.gateway.callers import Me  # noqa: TC001 - read by FastAPI
from trunkline.gateway.openapi import answer
from trunkline.gateway.rendering import Answer, rows

router = APIRouter(prefix="/v1", tags=["objects"])

Object = Annotated[
    str, Path(alias="object", description="Its kind and name.", examples=["topic:orders"])
]
Privilege = Annotated[str, Path(description="A privilege.", examples=["append"])]
Role = Annotated[str, Path(description="A role of the server.", examples=["alice"])]


class Transfer(Body):
    """Whose an object becomes."""

    owner: Annotated[str, Field(description="A role of the server.")]


class NewQuota(Body):
    """How much a role may append and publish in a second; null sets no limit."""

    messages_per_second: int | None = None
    bytes_per_second: int | None = None


@router.get(
    "/objects", summary="Objects, their owners and grants", responses=answer([calls.OwnedObject])
)
async def objects(me: Me, kind: str | None = None) -> Response:
    """What each role may do with them, and what you may do."""
    return Answer(rows(await me.run(calls.objects(kind))))


@router.put("/objects/{object:path}/grants/{privilege}/{role}", summary="Grant", status_code=204)
async def grant(me: Me, object_: Object, privilege: Privilege, role: Role) -> Response:
    """Give a role a privilege on an object."""
    await me.run(calls.grant(object_, privilege, role))
    return Response(status_code=204)


@router.delete(
    "/objects/{object:path}/grants/{privilege}/{role}",
    summary="Revoke",
    responses=answer({"revoked": bool}),
)
async def revoke(me: Me, object_: Object, privilege: Privilege, role: Role) -> Response:
    """Take a privilege on an object from a role; answers whether it had a grant of its own."""
    return Answer({"revoked": await me.run(calls.revoke(object_, privilege, role))})


@router.put("/objects/{object:path}/owner", summary="Transfer an object", status_code=204)
async def transfer(me: Me, object_: Object, to: Transfer) -> Response:
    """Make another role the owner of an object."""
    await me.run(calls.transfer(object_, to.owner))
    return Response(status_code=204)


@router.get("/quotas", summary="The quotas of roles", responses=answer([calls.Quota]))
async def quotas(me: Me) -> Response:
    """Messages and bytes that a role may append and publish in a second."""
    return Answer(rows(await me.run(calls.quotas())))


@router.put("/quotas/{role}", summary="Limit a role", status_code=204)
async def set_quota(me: Me, role: Role, limits: NewQuota) -> Response:
    """Set what a role may append and publish in a second; two nulls remove the quota."""
    call = calls.set_quota(
        role,
        messages_per_second=limits.messages_per_second,
        bytes_per_second=limits.bytes_per_second,
    )
    await me.run(call)
    return Response(status_code=204)
