"""Short forms for tests that speak to keys in SQL."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from tests.fixtures.asking import ask, call, called, column, forget_prepared

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from tests.fixtures.asking import Session

SPACE = "default"
SHARD = "s"
ZONES = ("a", "b", "c")
SECOND = 1_000_000  # stamps count microseconds

CLOCK = (
    "create or replace function trunkline._kv_clock() returns bigint language sql volatile as $$"
    " select (extract(epoch from clock_timestamp()) * 1000000)::bigint{} $$"
)
KEPT = ("entry", "counter", "held", "peer", "life", "here")
SWEEP = f"""
{"".join(f"delete from trunkline.kv_{name};" for name in KEPT)}
delete from trunkline.owner where resource like 'kv:%%';
delete from trunkline.lease;
update trunkline.kv_clock set floor = 0, lead = 0, ahead = null, stale_at = null
 where floor <> 0 or lead <> 0 or ahead is not null or stale_at is not null;
update trunkline.config set value = default_value where value <> default_value;
delete from trunkline.cursor c using trunkline.cursor_key k
 where k.cursor_id = c.cursor_id and k.resource like 'kv:%%';
delete from trunkline.cursor_key where resource like 'kv:%%';
{CLOCK.format("")};
"""


class Entry(NamedTuple):
    """What reads of keys answer."""

    key: str
    value: Any
    version: str
    expires_at: datetime | None


class Change(NamedTuple):
    """What `kv_changes` answers."""

    up_to: int
    key: str | None
    value: Any
    version: str | None
    expires_at: datetime | None


class Told(NamedTuple):
    """What `kv_export` answers."""

    life: int
    up_to: int
    head: int
    states: list[dict[str, Any]]


def swept(session: Session) -> Session:
    """Remove what an earlier test left."""
    session.execute("set lock_timeout = '5s'")
    forget_prepared(session)
    session.execute(SWEEP.replace("%%", "%"))
    session.execute("reset lock_timeout")
    session.execute("select trunkline._kv_life()")
    tick(session)
    return session


# Keys


def get(session: Session, key: str | None = "k", namespace: str | None = SPACE) -> Any:
    return ask(session, "select trunkline.kv_get(%s, %s)", [namespace, key])


def put(
    session: Session, key: str | None = "k", value: Any = 1, namespace: str = SPACE, **options: Any
) -> str:
    """Put a value; INSERT, UPDATE or CONFLICT."""
    given = {"namespace": namespace, "key": key, "value": json.dumps(value), **options}
    return str(call(session, "kv_put", **given)[0][0])


def put_many(session: Session, values: dict[str, Any], **options: Any) -> dict[str, str]:
    rows = session.execute(
        "select * from trunkline.kv_put_many(%s, %s::text[], %s::jsonb[], %s, %s)",
        [
            options.get("namespace", SPACE),
            list(values),
            [json.dumps(value) for value in values.values()],
            options.get("policy"),
            options.get("ttl"),
        ],
    )
    return dict(rows.fetchall())


def delete(session: Session, key: str = "k", **options: Any) -> str:
    return str(call(session, "kv_delete", namespace=SPACE, key=key, **options)[0][0])


def patch(session: Session, offsets: Any, key: str = "k", **options: Any) -> str:
    given = {"namespace": SPACE, "key": key, "offsets": json.dumps(offsets), **options}
    return str(call(session, "kv_patch_numeric", **given)[0][0])


def read(session: Session, key: str = "k") -> Entry | None:
    """A key with its version and time."""
    rows = call(session, "kv_get_many", namespace=SPACE, keys=[key])
    return Entry(*rows[0]) if rows else None


def version(session: Session, key: str = "k") -> str:
    entry = read(session, key)
    assert entry is not None
    return entry.version


def scan(session: Session, prefix: str = "", **options: Any) -> dict[str, Any]:
    rows = call(session, "kv_scan", **{"namespace": SPACE, "prefix": prefix, **options})
    return {row[0]: row[1] for row in rows}


def changes(session: Session, after: int = 0, **options: Any) -> list[Change]:
    rows = call(session, "kv_changes", **{"namespace": SPACE, "after_position": after, **options})
    return [Change(*row) for row in rows]


def clock(session: Session) -> int:
    return int(ask(session, "select trunkline._kv_clock()"))


def set_clock(session: Session, ahead: float) -> None:
    """Let the clock of this database be ahead of the server's by some seconds."""
    session.execute(CLOCK.format(f" + {int(ahead * SECOND)}"))


def stop_clock(session: Session, at: int) -> None:
    """Let the clock of this database stand still."""
    session.execute(
        "create or replace function trunkline._kv_clock() returns bigint language sql volatile"
        f" as $$ select {at}::bigint $$"
    )


def stamps(session: Session, key: str = "k") -> tuple[int, int]:
    """Stamp and origin of a key."""
    row = session.execute(
        "select stamp, origin from trunkline.kv_entry where namespace = 'default' and key = %s",
        [key],
    ).fetchone()
    assert row is not None
    return (row[0], row[1])


def expire(session: Session, *keys: str, ago: str = "1 second") -> None:
    """Let keys have expired a second ago, or earlier."""
    session.execute(
        "update trunkline.kv_entry set expires_at = expires_at - left_, counted_until ="
        " case when isfinite(counted_until) then counted_until - left_ else counted_until end,"
        " dead_at = dead_at - left_ from (select key as name,"
        " dead_at - clock_timestamp() + %s::interval as left_ from trunkline.kv_entry) e"
        " where key = name and key = any (%s) and dead_at > clock_timestamp()",
        [ago, list(keys)],
    )


def remembered(session: Session) -> list[str]:
    """Keys of which anything is known, dead ones too."""
    return column(
        session, "select key from trunkline.kv_entry where namespace <> 'parade' order by key"
    )


# Numbering and upkeep


def tick(session: Session) -> int:
    """Number what was committed; how many changes."""
    return int(ask(session, "select trunkline.kv_tick()"))


def head(session: Session) -> int:
    return int(ask(session, "select trunkline.kv_head()"))


def configure(session: Session, **values: str) -> None:
    """Settings of the store: ``configure(session, dead_keep="0")``."""
    for name, value in values.items():
        session.execute("select trunkline.config_set(%s, %s)", [f"kv.{name}", value])


def forget(session: Session) -> list[str]:
    """Forget what may be forgotten; which keys that were."""
    before = remembered(session)
    while ask(session, "select trunkline.kv_forget()"):
        pass
    return sorted(set(before) - set(remembered(session)))


STALE = (
    "update trunkline.kv_clock"
    " set stale_since = now() - interval '11 minutes', stale_at = now() - interval '5 minutes'"
)
"""Peers that are away have been seen to be so for a while."""

# Zones


@dataclass(eq=False)
class Copy:
    """A zone of the parade. Nothing runs by itself: `pull` brings what another has."""

    name: str
    session: Session
    process: str = field(default_factory=lambda: str(uuid4()))

    @property
    def instance(self) -> str:
        return f"{self.name}/{SHARD}"

    @property
    def origin(self) -> int:
        return int(ask(self.session, "select (trunkline._kv_life()).origin"))


def parade(copies: Sequence[Copy]) -> None:
    """Let zones know of each other."""
    first = copies[0].session
    for copy in copies:
        call(first, "kv_instance_put", zone=copy.name, shard=SHARD, dsn=f"dbname={copy.name}")
    told = ask(first, "select jsonb_agg(trunkline._kv_state(e))::text from trunkline.kv_entry e")
    for copy in copies:
        copy.session.execute("select trunkline._kv_merge(%s, 1)", [told])
        call(copy.session, "kv_instance_here", zone=copy.name, shard=SHARD)


def epoch(to: Copy, frm: Copy) -> int:
    """The right to apply what another zone says."""
    call(to.session, "lease_renew", process=to.process)
    resource = f"kv:from:{frm.instance}"
    return int(call(to.session, "owner_take", resource=resource, process=to.process)[0][0])


def copy_begin(frm: Copy, to: Copy) -> dict[str, Any]:
    """Begin to copy everything; the state of the puller."""
    hello = called(frm.session, "kv_hello", instance=to.instance).fetchone()
    mine = called(to.session, "kv_pulled", instance=frm.instance).fetchone()
    assert hello is not None
    assert mine is not None
    return {
        "up_to": ask(
            frm.session, "select trunkline.kv_copy_begin(%s, %s)", [to.instance, mine["life"]]
        ),
        "origin": hello["origin"],
        "life": mine["life"],
        "copied": False,
        "seen": hello["pulled"] if hello["whole"] else None,
    }


def export(frm: Copy, to: Copy, after: int, **options: Any) -> Told:
    rows = call(
        frm.session,
        "kv_export",
        instance=to.instance,
        origin=to.origin,
        after_position=after,
        **options,
    )
    return Told(*rows[0])


def apply(
    to: Copy,
    frm: Copy,
    states: Sequence[dict[str, Any]],
    *,
    up_to: int | None = None,
    state: dict[str, Any] | None = None,
    read_at: int | None = None,
) -> tuple[int, int]:
    """Take in states; how many keys changed and how many are held back."""
    reached = pulled(to, frm)
    known = reached[1] or {"origin": frm.origin, "life": to.origin, "copied": True}
    row = to.session.execute(
        "select applied, held from trunkline.kv_apply(%s, %s, %s, %s, %s, %s)",
        [
            frm.instance,
            epoch(to, frm),
            (reached[0] or 0) if up_to is None else up_to,
            json.dumps(known if state is None else state),
            json.dumps(states),
            clock(to.session) if read_at is None else read_at,
        ],
    ).fetchone()
    assert row is not None
    return (row[0], row[1])


def pulled(to: Copy, frm: Copy) -> tuple[int | None, dict[str, Any] | None]:
    """How far a zone has pulled from another, and the state that it noted."""
    row = called(to.session, "kv_pulled", instance=frm.instance).fetchone()
    assert row is not None
    return (row["up_to"], row["state"])


def pull(frm: Copy, to: Copy, *, max_at_once: int = 2000) -> int:
    """Bring everything that a zone has to another, as a puller does; how many keys changed."""
    tick(frm.session)
    changed = 0
    up_to, state = pulled(to, frm)
    if state is None or state["life"] != to.origin:
        state = copy_begin(frm, to)
        up_to = state.pop("up_to")
        changed += _copy(frm, to, state, max_at_once)
    assert up_to is not None
    while True:
        told = export(frm, to, up_to, max_changes=max_at_once)
        if told.up_to == up_to:
            break
        up_to = told.up_to
        changed += apply(to, frm, told.states, up_to=up_to, state={**state, "copied": True})[0]
    heard(to, frm, told.head)
    confirm(frm, to, up_to)
    return changed


def _copy(frm: Copy, to: Copy, state: dict[str, Any], max_keys: int) -> int:
    changed = 0
    up_to = head(frm.session)
    after = ("", "")
    while True:
        namespace, key, states = copied(frm, to, after, max_keys=max_keys)
        done = {**state, "copied": namespace is None}
        changed += apply(to, frm, states, up_to=up_to, state=done)[0]
        if namespace is None:
            return changed
        after = (namespace, key)


def copied(
    frm: Copy, to: Copy, after: tuple[str, str] = ("", ""), **options: Any
) -> tuple[str | None, str, list[dict[str, Any]]]:
    """A part of everything."""
    rows = call(
        frm.session,
        "kv_copy",
        instance=to.instance,
        origin=to.origin,
        after_namespace=after[0],
        after_key=after[1],
        **options,
    )
    return (rows[0][0], rows[0][1], rows[0][2])


def heard(to: Copy, frm: Copy, up_to: int) -> None:
    """Note that everything of another zone is here, as if more than ten seconds had passed."""
    to.session.execute("update trunkline.kv_peer set heard_at = heard_at - interval '11 seconds'")
    call(
        to.session,
        "kv_heard",
        instance=frm.instance,
        origin=frm.origin,
        head=up_to,
        is_level=True,
    )


def confirm(frm: Copy, to: Copy, up_to: int) -> None:
    frm.session.execute("select trunkline.kv_confirm(%s, %s, %s)", [to.instance, to.origin, up_to])


def settle(*zones: Copy) -> None:
    """Let everything reach everybody."""
    for _ in range(10):
        if not sum(pull(frm, to) for frm in zones for to in zones if frm is not to):
            return
    raise AssertionError("the zones do not come to rest")


def states(session: Session) -> list[Any]:
    """Everything that zones know of keys, but for what is of this copy alone."""
    return column(
        session,
        "select trunkline._kv_state(e) from trunkline.kv_entry e where e.namespace <> 'parade'"
        " order by e.namespace, e.key",
    )


def ordered(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """States whose counters are in one order."""
    return [
        {**state, "counters": sorted(state["counters"])} if state.get("counters") else state
        for state in found
    ]


def same(*zones: Copy) -> dict[str, Any]:
    """Assert that zones know and show the same; what they show."""
    first, *others = zones
    for other in others:
        assert ordered(states(other.session)) == ordered(states(first.session))
        assert scan(other.session) == scan(first.session)
        digest = "select array_agg(d::text) from trunkline.kv_digest() d"
        assert ask(other.session, digest) == ask(first.session, digest)
    return scan(first.session)
