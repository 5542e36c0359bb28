"""``trunkline kv instance``, ``namespace``, ``policy``, ``status`` and others: the parade."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command, run_async
from trunkline.cli.kv import Namespace
from trunkline.cli.output import say
from trunkline.core.words import counted

instance = commands("Which databases are shards of which zones.")
namespaces = commands("Namespaces, the same in every zone.")
policy = commands("How long keys live that are put with a policy.")

Zone = Annotated[str, typer.Argument(metavar="ZONE", help="The zone.")]
Shard = Annotated[str, typer.Argument(metavar="SHARD", help="The shard.")]
PolicyName = Annotated[str, typer.Argument(metavar="POLICY", help="The policy.")]

_STATUS = (
    *("instance", "state", "behind", "level_at", "unconfirmed", "asked_at", "skew", "error"),
    *("waiting", "waiting_since", "waits_for"),
)
_TOPOLOGY = "See which there are: trunkline kv topology"
_ALONE = "This database stands alone: it belongs to no parade."


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    for part, name in ((instance, "instance"), (namespaces, "namespace"), (policy, "policy")):
        app.add_typer(part, name=name, rich_help_panel="Parade")
    for function, example in {
        policies: "trunkline kv policies",
        topology: "trunkline kv topology",
        status: "trunkline kv status",
        held: "trunkline kv held",
        audit: "trunkline kv audit",
    }.items():
        command(app, example=example, reads=True, panel="Parade")(function)
    command(app, example="trunkline kv tick", panel="Parade")(tick)
    command(instance, "list", example="trunkline kv instance list", reads=True)(topology)


@command(
    instance,
    "put",
    example="trunkline kv instance put east main 'service=kv-east user=replicator'",
)
def instance_put(
    invocation: Invocation,
    zone: Zone,
    shard: Shard,
    dsn_: Annotated[
        str,
        typer.Argument(metavar="DSN", help="DSN for the other zones; better without a password."),
    ],
) -> None:
    """Add a database to the parade, or change its DSN."""
    from trunkline.core.telemetry import redact
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        changed = session.run(parade_calls.instance_put(zone, shard, dsn_))
    say(f"{zone}/{shard} {'belongs to the parade' if changed else 'is there already'}.")
    if redact(dsn_) != dsn_:
        say("The password in it is told to every instance: a passfile or a service is better.")


@command(instance, "drop", example="trunkline kv instance drop east main")
def instance_drop(invocation: Invocation, zone: Zone, shard: Shard) -> None:
    """Remove a database from the parade; the others stop pulling from it."""
    from trunkline.core.errors import NotFound
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        if not session.run(parade_calls.instance_drop(zone, shard)):
            raise NotFound(f"the parade has no instance {zone}/{shard}.", hint=_TOPOLOGY)
    say(f"{zone}/{shard} has left the parade.")


@command(instance, "here", example="trunkline kv instance here east main")
def instance_here(invocation: Invocation, zone: Zone, shard: Shard) -> None:
    """Set which instance of the parade this database is."""
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        session.run(parade_calls.instance_here(zone, shard))
    say(f"This database is {zone}/{shard}.")


@command(namespaces, "put", example="trunkline kv namespace put sessions")
def namespace_put(
    invocation: Invocation,
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.")],
) -> None:
    """Create a namespace in all zones."""
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        made = session.run(parade_calls.namespace_put(namespace))
    say(f"Namespace {namespace} is {'made' if made else 'there already'}.")


@command(namespaces, "list", example="trunkline kv namespace list", reads=True)
def namespace_list(invocation: Invocation) -> None:
    """List namespaces."""
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        rows = session.run(parade_calls.policies())
    owners = {row.namespace: row.owner for row in rows}
    invocation.print({"namespace": name, "owner": owner} for name, owner in owners.items())


@command(policy, "list", example="trunkline kv policy list", reads=True)
def policy_list(invocation: Invocation) -> None:
    """List expiry policies."""
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        rows = session.run(parade_calls.policies())
    found = [row for row in rows if row.policy is not None]
    invocation.print(found, nothing="No policies.")


@command(policy, "put", example="trunkline kv policy put short 2d")
def policy_put(
    invocation: Invocation,
    name: PolicyName,
    keep: Annotated[str, typer.Argument(metavar="DURATION", help="How long keys live.")],
    namespace: Namespace = "default",
) -> None:
    """Set the lifetime of keys put with a policy; existing keys keep theirs."""
    from trunkline.cli import inputs
    from trunkline.kv import parade_calls

    lasting = inputs.duration(keep, option="DURATION")
    with invocation.session() as session:
        changed = session.run(parade_calls.policy_put(name, lasting, namespace=namespace))
    say(f"Policy {name} of {namespace} is {'set' if changed else 'so already'}.")


@command(policy, "drop", example="trunkline kv policy drop short")
def policy_drop(invocation: Invocation, name: PolicyName, namespace: Namespace = "default") -> None:
    """Drop a policy; keys put with it keep their lifetime."""
    from trunkline.core.errors import NotFound
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        if not session.run(parade_calls.policy_drop(name, namespace=namespace)):
            hint = "See which there are: trunkline kv policies"
            raise NotFound(f'namespace "{namespace}" has no policy "{name}".', hint=hint)
    say(f"Policy {name} of {namespace} is gone.")


def policies(invocation: Invocation) -> None:
    """List namespaces and their expiry policies."""
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        rows = session.run(parade_calls.policies())
    invocation.print(rows)


def topology(invocation: Invocation) -> None:
    """List all instances of the parade, without passwords."""
    from trunkline.core.telemetry import redact
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        rows = session.run(parade_calls.topology())
    shown = [replace(row, dsn=row.dsn and redact(row.dsn)) for row in rows]
    invocation.print(shown, nothing="The parade has no instances.")


def status(invocation: Invocation) -> None:
    """Show replication to and from the other instances: state, lag, errors."""
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        rows = session.run(parade_calls.status())
    invocation.print(rows, columns=_STATUS, nothing=_ALONE)


def held(invocation: Invocation) -> None:
    """Changes of other zones that wait here: for their time, or for a lock."""
    from trunkline.kv import parade_calls

    with invocation.session() as session:
        rows = session.run(parade_calls.held())
    invocation.print(rows, nothing="No key is held back.")


def tick(invocation: Invocation) -> None:
    """Number committed changes once, as the services do."""
    from trunkline.kv import calls

    with invocation.session() as session:
        numbered = session.run(calls.tick())
    say(f"{counted(numbered, 'change')} got a position.")


def audit(invocation: Invocation) -> None:
    """Compare this copy with the others now and fetch what it lacks."""
    rows = run_async(_audit(invocation))
    invocation.print(rows, nothing="There is no other copy of this shard.")
    if any(row["error"] for row in rows):
        raise typer.Exit(1)


async def _audit(invocation: Invocation) -> list[dict[str, Any]]:
    from trunkline.core.lease import ProcessLease

    async with invocation.platform() as platform:
        here = next((each for each in await platform.kv.topology() if each.here), None)
        if here is None:
            return []
        lease = ProcessLease(platform.db)
        try:
            return [
                await _compare(platform.db, lease, f"{here.zone}/{here.shard}", peer)
                for peer in await platform.kv.peers()
                if peer.scope == "all"
            ]
        finally:
            await lease.close()


async def _compare(db: Any, lease: Any, here: str, peer: Any) -> dict[str, Any]:
    """Compare with one peer: how many keys were mended, or why that could not be done."""
    from trunkline.core.errors import TrunklineError
    from trunkline.core.telemetry import redact
    from trunkline.kv import pull_calls
    from trunkline.kv.puller import Puller

    mended, error = None, None
    puller = Puller(db, lease, here, peer)
    try:
        mine = pull_calls.take(f"kv:from:{peer.instance}", await lease.hold())
        if await db.run(mine) is None:
            error = "a service pulls from it, and compares once an hour"
        else:
            mended = await puller.compare()
    except TrunklineError as found:
        error = redact(found.message)
    finally:
        await puller.close()
    return {"instance": peer.instance, "mended": mended, "error": error}
