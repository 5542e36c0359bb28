"""What is asked of the parade: which instances there are, namespaces, policies, how they stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trunkline.core.calls import Call, duration, many, nothing, scalar
from trunkline.core.settings import normalise
from trunkline.kv.models import KvHeld, KvInstance, KvPeer, KvPolicy, KvStatus

if TYPE_CHECKING:
    from datetime import timedelta


def instance_put(zone: str, shard: str, dsn: str) -> Call[bool]:
    """Make a shard of a zone part of the parade; whether that changed anything."""
    return Call(
        "kv_instance_put",
        {"zone": zone, "shard": shard, "dsn": normalise(dsn)},
        scalar,
        safe_to_repeat=True,
    )


def instance_drop(zone: str, shard: str) -> Call[bool]:
    """Take an instance out of the parade; whether it was there."""
    return Call("kv_instance_drop", {"zone": zone, "shard": shard}, scalar, safe_to_repeat=True)


def instance_here(zone: str, shard: str) -> Call[None]:
    """Say which instance of the parade this database is."""
    return Call("kv_instance_here", {"zone": zone, "shard": shard}, nothing, safe_to_repeat=True)


def namespace_put(namespace: str) -> Call[bool]:
    """Make a namespace, everywhere; whether it is new."""
    return Call("kv_namespace_put", {"namespace": namespace}, scalar, safe_to_repeat=True)


def policy_put(policy: str, keep: timedelta, *, namespace: str = "default") -> Call[bool]:
    """Say how long keys live that are put with this policy; whether that changed anything."""
    return Call(
        "kv_policy_put",
        {"namespace": namespace, "policy": policy, "keep": duration("keep", keep)},
        scalar,
        safe_to_repeat=True,
        types={"keep": "interval"},
    )


def policy_drop(policy: str, *, namespace: str = "default") -> Call[bool]:
    """Take a policy back; whether it was there."""
    return Call(
        "kv_policy_drop",
        {"namespace": namespace, "policy": policy},
        scalar,
        safe_to_repeat=True,
    )


def policies() -> Call[list[KvPolicy]]:
    """Namespaces, and the policies by which their keys expire."""
    return Call("kv_policies", {}, many(KvPolicy), safe_to_repeat=True)


def topology() -> Call[list[KvInstance]]:
    """All instances of the parade."""
    return Call("kv_topology", {}, many(KvInstance), safe_to_repeat=True)


def peers() -> Call[list[KvPeer]]:
    """From whom this instance pulls what."""
    return Call("kv_local_replication_topology", {}, many(KvPeer), safe_to_repeat=True)


def status() -> Call[list[KvStatus]]:
    """How this instance stands to the others."""
    return Call("kv_status", {}, many(KvStatus), safe_to_repeat=True)


def held() -> Call[list[KvHeld]]:
    """Keys that wait because the clock that stamped them was too far ahead."""
    return Call("kv_held", {}, many(KvHeld), safe_to_repeat=True)
