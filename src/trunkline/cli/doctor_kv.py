"""What ``trunkline doctor`` says of the parade: peers, clocks, and whether this copy is whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from trunkline.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from trunkline.core.doctor import Finding
    from trunkline.kv.models import KvStatus

_WITHIN = timedelta(minutes=10)  # after which a peer that follows should have said something
_LOCKED_FOR = timedelta(seconds=10)  # that a key may wait for a transaction
_LOOK = "Look: trunkline kv status"
_RUN = "Keep `trunkline up` running"


def check_kv(connection: psycopg.Connection[Any], *, far_behind: int) -> Iterator[Finding]:
    """Do the instances of the parade hear each other, and do their clocks agree?"""
    from trunkline.core.doctor import Finding, State
    from trunkline.core.execution import execute
    from trunkline.kv import parade_calls

    topology = execute(connection, parade_calls.topology())
    peers = execute(connection, parade_calls.status())
    if topology and not any(instance.here for instance in topology):
        yield Finding(
            "kv",
            State.WARN,
            f"the parade has {counted(len(topology), 'instance')}, and none is this database",
            "Say which it is: trunkline kv instance here ZONE SHARD",
        )
        return
    troubles = [*_clock(connection, peers), *_held(connection)]
    for peer in peers:
        troubles += [*_from(peer, far_behind), *_waiting(peer), *_to(peer)]
    yield from troubles
    if not troubles:
        near = f"{counted(len(peers), 'peer')}, none far behind" if peers else "it stands alone"
        yield Finding("kv", State.OK, near)


def check_whole(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    """Does this copy know which of its keys were deleted while it was away?"""
    from trunkline.core.doctor import Finding, State
    from trunkline.core.execution import execute
    from trunkline.kv import parade_calls, pull_calls

    peers = [peer for peer in execute(connection, parade_calls.peers()) if peer.scope == "all"]
    if peers and not execute(connection, pull_calls.pulled(peers[0].instance)).whole:
        yield Finding(
            "kv",
            State.WARN,
            "this copy is not whole: keys of before its restore or failover may be shown that were"
            " deleted meanwhile",
            f"{_RUN} here: it is whole when every peer has been copied. {_LOOK}",
        )


def _clock(connection: psycopg.Connection[Any], peers: list[KvStatus]) -> Iterator[Finding]:
    from trunkline.core.doctor import Finding, State, duration_text

    row = connection.execute("select trunkline.config_get('kv.max_skew')::interval").fetchone()
    most = row[0] if row else timedelta.max
    known = {peer.instance: peer.skew for peer in peers if peer.skew and peer.state != "away"}
    ahead = [skew for skew in known.values() if skew > most]
    wrong = {name: skew for name, skew in known.items() if abs(skew) > most}
    if len(ahead) * 2 > len(known) + 1:
        yield Finding(
            "kv",
            State.FAIL,
            f"the clock of this server is {duration_text(min(ahead))} ahead of most others:"
            " nothing can be written here",
            "Set the clock, or raise the setting kv.max_skew if the others are wrong.",
        )
    elif wrong:
        name, skew = max(wrong.items(), key=lambda item: abs(item[1]))
        yield Finding(
            "kv",
            State.WARN,
            f"the clock of this server is {duration_text(abs(skew))}"
            f" {'ahead of' if skew > timedelta() else 'behind'} that of {name}; both zones write",
            "Set the clock that is wrong.",
        )


def _held(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    from trunkline.core.doctor import Finding, State, duration_text
    from trunkline.core.execution import execute
    from trunkline.kv import parade_calls

    if held := [key for key in execute(connection, parade_calls.held()) if key.reason == "clock"]:
        ahead = max(key.stamped_for for key in held) - datetime.now(UTC)
        yield Finding(
            "kv",
            State.WARN,
            f"{counted(len(held), 'key is', 'keys are')} held back: the clock that stamped"
            f" {'it' if len(held) == 1 else 'them'} is up to {duration_text(ahead)} ahead",
            "Set that clock; they count when their time has come. Look: trunkline kv held",
        )


def _from(peer: KvStatus, far_behind: int) -> Iterator[Finding]:
    """Do we get what the peer has?"""
    from trunkline.core.doctor import Finding, State, duration_text

    since = None if peer.level_at is None else duration_text(datetime.now(UTC) - peer.level_at)
    if peer.state == "away":
        heard = "and was never copied" if since is None else f"all of it was here {since} ago"
        found = f"{peer.instance} is away, {heard}: {peer.error}"
        yield Finding("kv", State.WARN, found, f"It is asked again and again. {_LOOK}")
    elif peer.state == "new":
        found = f"{peer.instance} was never heard"
        yield Finding("kv", State.WARN, found, f"{_RUN} here, as a role that administers.")
    elif peer.level_at is None:
        found = f"{peer.instance} is not copied to its end yet"
        yield Finding("kv", State.WARN, found, f"{_RUN} here. {_LOOK}")
    elif (peer.behind or 0) > far_behind or datetime.now(UTC) - peer.level_at > _WITHIN:
        found = (
            f"{counted(peer.behind or 0, 'known change')} of {peer.instance}"
            f" {'is' if peer.behind == 1 else 'are'} not here yet; all of it was here {since} ago"
        )
        yield Finding("kv", State.WARN, found, f"{_RUN} here. {_LOOK}")


def _waiting(peer: KvStatus) -> Iterator[Finding]:
    """Does an open transaction here keep changes of the peer from being applied?"""
    from trunkline.core.doctor import Finding, State, duration_text

    if peer.waiting_since is None:
        return
    waited = datetime.now(UTC) - peer.waiting_since
    if waited > _LOCKED_FOR:
        yield Finding(
            "kv",
            State.WARN,
            f"{counted(peer.waiting, 'key')} of {peer.instance}"
            f" {'waits' if peer.waiting == 1 else 'wait'} for a lock here, the first for"
            f" {duration_text(waited)}: held by {peer.waits_for or 'an unknown transaction'}",
            "End it: select pg_terminate_backend(PID). All other keys are replicated.",
        )


def _to(peer: KvStatus) -> Iterator[Finding]:
    """Does the peer get what we have?"""
    from trunkline.core.doctor import Finding, State, duration_text

    remedy = f"{_RUN} there; its own doctor tells more."
    if peer.asked_at is None:
        if peer.state in {"copying", "following"}:
            found = f"{peer.instance} has never asked for what changed here"
            yield Finding("kv", State.WARN, found, remedy)
    elif (silent := datetime.now(UTC) - peer.asked_at) > _WITHIN:
        waiting = counted(peer.unconfirmed or 0, "change waits", "changes wait")
        found = f"{peer.instance} has not asked for {duration_text(silent)}, {waiting} for it"
        yield Finding("kv", State.WARN, found, remedy)
