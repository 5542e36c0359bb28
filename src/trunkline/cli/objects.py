"""``trunkline object``: owners, grants and quotas."""

from typing import Annotated

import typer

from trunkline.cli.helping import Group
from trunkline.cli.invocation import Invocation, command
from trunkline.cli.output import say

app = typer.Typer(cls=Group, help="Owners, grants and quotas.", no_args_is_help=True)

Object = Annotated[str, typer.Argument(metavar="OBJECT", help="Its kind and name: topic:orders.")]
Privilege = Annotated[
    str, typer.Argument(metavar="PRIVILEGE", help="append, read, consume, manage ...")
]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="A role of the server.")]


@command(app, "list", example="trunkline object list topic", reads=True)
def objects(
    invocation: Invocation,
    kind: Annotated[str | None, typer.Argument(metavar="KIND", help="Only this kind.")] = None,
) -> None:
    """List objects with their owners, their grants and what you may do."""
    from trunkline.core.objects import objects as call

    with invocation.session() as session:
        found = session.run(call(kind))
    invocation.print(found, columns=("object", "owner", "grants", "may"), nothing="No objects.")


@command(app, example="trunkline object grant topic:orders append alice", reads=True)
def grant(invocation: Invocation, object_: Object, privilege: Privilege, role: Role) -> None:
    """Give a role a privilege on an object."""
    from trunkline.core.objects import grant as call

    with invocation.session() as session:
        session.run(call(object_, privilege, role))
    say(f"{role} has {privilege} on {object_}.")


@command(app, example="trunkline object revoke topic:orders append alice", reads=True)
def revoke(invocation: Invocation, object_: Object, privilege: Privilege, role: Role) -> None:
    """Take a privilege on an object from a role."""
    from trunkline.core.objects import revoke as call

    with invocation.session() as session:
        had = session.run(call(object_, privilege, role))
    say(
        f"{role} lost {privilege} on {object_}."
        if had
        else f"{role} had no grant of {privilege} on {object_}."
    )


@command(app, example="trunkline object transfer topic:orders alice", reads=True)
def transfer(
    invocation: Invocation,
    object_: Object,
    owner: Annotated[str, typer.Argument(metavar="OWNER", help="The new owner, a role.")],
) -> None:
    """Make another role the owner of an object."""
    from trunkline.core.objects import transfer as call

    with invocation.session() as session:
        session.run(call(object_, owner))
    say(f"{owner} owns {object_}.")


@command(app, example="trunkline object quota alice --messages 1000 --bytes 1000000", reads=True)
def quota(
    invocation: Invocation,
    role: Role,
    messages: Annotated[
        int | None, typer.Option("--messages", metavar="N", help="In a second.")
    ] = None,
    size: Annotated[int | None, typer.Option("--bytes", metavar="N", help="In a second.")] = None,
) -> None:
    """Limit what a role appends and publishes; without a number, remove its quota."""
    from trunkline.core.objects import set_quota

    with invocation.session() as session:
        session.run(set_quota(role, messages_per_second=messages, bytes_per_second=size))
    say(f"{role} has no quota." if messages is size is None else f"The quota of {role} is set.")


@command(app, example="trunkline object quotas", reads=True)
def quotas(invocation: Invocation) -> None:
    """List the quotas of roles."""
    from trunkline.core.objects import quotas as call

    with invocation.session() as session:
        found = session.run(call())
    invocation.print(found, nothing="No quotas.")
