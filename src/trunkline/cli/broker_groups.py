"""``trunkline broker``: groups, what waits in them, and where they stand."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from uuid import uuid4

import typer

from trunkline.cli.asking import Yes, ask
from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.output import say

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group.")]
SomeGroup = Annotated[
    str | None, typer.Option("--group", "-g", metavar="NAME", help="Only this group.")
]
Handler = Annotated[
    str, typer.Option(metavar="NAME", help="The handler; else the one without a name.")
]
Lane = Annotated[int | None, typer.Option(metavar="N", help="Only this lane.")]

_WAITING = ("lane", "up_to", "topic", "key", "payload", "at", "blocked")
_LAG = (
    *("group_name", "handler", "lane", "waiting", "oldest_at", "retrying", "parked", "dead"),
    "process_name",
)
_GROUPS = (
    "group_name",
    "lanes",
    "subscriptions",
    "handlers",
    "waiting",
    "waiting_since",
    "dead",
    "lost",
    "idle_since",
)


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    add = partial(command, app, panel="Groups")
    add(example="trunkline broker read billing --limit 10", reads=True)(read)
    add(example="trunkline broker commit billing 120 --lane 0")(commit)
    add(example='trunkline broker seek billing --to "2h ago"', reads=True)(seek)
    add(example="trunkline broker groups", reads=True)(groups)
    add(example="trunkline broker lag --group billing", reads=True)(lag)
    add("group-delete", example="trunkline broker group-delete billing --yes")(group_delete)


def read(
    invocation: Invocation,
    group: Group,
    handler: Handler = "",
    lane: Lane = None,
    from_: Annotated[
        int | None, typer.Option("--from", metavar="N", help="Begin at this delivery.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="Maximum number of events.")
    ] = 100,
    register: Annotated[
        bool,
        flag("--register", help="Create the handler if it is new; its unread events are kept."),
    ] = False,
) -> None:
    """Show events that wait for a handler without consuming them."""
    from trunkline.broker import calls

    call = calls.read(
        group, handler=handler, lane=lane, from_position=from_, max_events=limit, peek=not register
    )
    with invocation.session() as session:
        found = session.run(replace(call, json_text=True))
    invocation.print(found, columns=_WAITING, nothing="Nothing waits.")


def commit(
    invocation: Invocation,
    group: Group,
    up_to: Annotated[int, typer.Argument(metavar="UP_TO", help="The last delivery that is done.")],
    lane: Annotated[int, typer.Option(metavar="N", help="The lane that it was read from.")],
    handler: Handler = "",
) -> None:
    """Commit a lane up to a delivery; refused while a worker owns the lane."""
    from trunkline.broker import handler_calls as calls
    from trunkline.core import lease
    from trunkline.core.errors import Conflict

    process = uuid4()
    with invocation.session() as session, session.connection.transaction():
        session.run(lease.renew(process, lease.default_name()))
        shares = session.run(calls.join(group, handler, process))
        mine = {share.lane: share.epoch for share in shares}
        if lane not in mine:
            raise Conflict(
                f'lane {lane} of group "{group}" is in the hands of a worker, or not there.',
                hint="See broker_lag().",
            )
        session.run(calls.commit(group, handler, lane, mine[lane], up_to))
        session.run(lease.end(process))
    say(f"Lane {lane} is done up to {up_to}.")


def seek(
    invocation: Invocation,
    group: Group,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="PLACE", help='earliest, latest, a delivery, a time, or "2h ago".'
        ),
    ] = None,
    position: Annotated[
        int | None,
        typer.Option("--position", metavar="N", help="To the event at this position instead."),
    ] = None,
    handler: Handler = "",
    lane: Lane = None,
) -> None:
    """Move a handler to an event or time; running workers continue from there."""
    from datetime import UTC, datetime

    from trunkline.broker import calls
    from trunkline.cli import inputs
    from trunkline.core.errors import Invalid

    if (to is None) == (position is None):
        raise Invalid("say where to: --to PLACE or --position N, one of them.")
    where: dict[str, Any] = {"at_position": position}
    if to is not None:
        place = inputs.start(to, option="--to", words=("earliest", "latest"), number="a delivery")
        if isinstance(place, int) and place < 1:
            raise Invalid(f"deliveries begin at 1, got {place}.")
        if isinstance(place, str):
            place = datetime.max.replace(tzinfo=UTC) if place == "latest" else 1
        where = {"up_to": place - 1} if isinstance(place, int) else {"at_time": place}
    moved = calls.seek(group, handler=handler, lane=lane, **where)
    with invocation.session() as session:
        places = session.run(moved)
    invocation.print({"lane": number, "up_to": up_to} for number, up_to in places.items())


def groups(invocation: Invocation, group: SomeGroup = None) -> None:
    """List groups: lanes, subscriptions, handlers and waiting events."""
    from trunkline.broker import calls

    with invocation.session() as session:
        found = session.run(calls.groups())
        if group is not None:
            session.run(calls.lag(group))  # it says what is wrong with a name
            found = [each for each in found if each.group_name == group]
    invocation.print(found, columns=_GROUPS, nothing="No groups.")


def lag(invocation: Invocation, group: SomeGroup = None) -> None:
    """Show the lag of handlers by lane: waiting events, since when, failures, owner."""
    from trunkline.broker import calls

    with invocation.session() as session:
        found = session.run(calls.lag(group))
    invocation.print(found, columns=_LAG, nothing="No handlers.")


def group_delete(invocation: Invocation, group: Group, yes: Yes = False) -> None:
    """Delete a group with its subscriptions, handlers, positions and dead letters."""
    from trunkline.broker import calls

    with invocation.session() as session:
        ask(f"Delete {group} with its subscriptions, positions and dead letters?", yes=yes)
        session.run(calls.group_delete(group))
    say(f"Deleted {group}.")
