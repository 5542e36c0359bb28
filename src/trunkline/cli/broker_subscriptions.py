"""``trunkline broker``: who wants which events."""

from functools import partial
from typing import Annotated, Any

import typer

from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.output import say

Condition = Annotated[
    str | None,
    typer.Argument(
        metavar="CONDITION",
        help="SQL over e and s, or JSON; without it, every event.",
    ),
]
Params = Annotated[
    str, typer.Option("--params", metavar="JSON", help="What the condition reads as s.params.")
]
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The subscription.")]

_LISTED = ("subscription", "group_name", "condition", "params", "way", "state", "error")


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    add = partial(command, app, panel="Subscriptions")
    example = """trunkline broker subscribe billing '{"topic": "orders.*"}'"""
    add(example=example, reads=True)(subscribe)
    add(example="trunkline broker unsubscribe 12")(unsubscribe)
    add(example="trunkline broker subscriptions --group billing", reads=True)(subscriptions)
    add(example="""trunkline broker explain "e.topic = 'orders'" """.strip(), reads=True)(explain)
    add(example="trunkline broker resume 12")(resume)


def subscribe(
    invocation: Invocation,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    condition: Condition = None,
    params: Params = "{}",
    expiry: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Ends when no process has held it for that long."),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="PLACE",
            help='Begin in the past: a position, a time, or "2h ago".',
        ),
    ] = None,
    handler: Annotated[
        str | None, typer.Option(metavar="NAME", help="Create a handler of the group for it.")
    ] = None,
    lanes: Annotated[
        int | None, typer.Option(metavar="N", help="Lanes of the group, if it is new.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace another subscription of the handler.")
    ] = False,
) -> None:
    """Subscribe a group to the events for which a condition holds; prints the number."""
    from trunkline.broker import subscription_calls
    from trunkline.cli import inputs

    call = subscription_calls.subscribe(
        group,
        condition,
        _params(params),
        expiry=None if expiry is None else inputs.duration(expiry, option="--expiry"),
        handler=handler,
        lanes=lanes,
        replace=replace,
        **_beginning(start),
    )
    with invocation.session() as session:
        number = session.run(call)
    invocation.print_one({"subscription": number, "group_name": group})


def unsubscribe(invocation: Invocation, subscription: Number) -> None:
    """End a subscription; events already matched are still delivered."""
    from trunkline.broker import subscription_calls
    from trunkline.core.errors import NotFound

    with invocation.session() as session:
        was_there = session.run(subscription_calls.unsubscribe(subscription))
    if not was_there:
        raise NotFound(
            f"there is no subscription {subscription}.",
            hint="List them: trunkline broker subscriptions",
        )
    say(f"Subscription {subscription} has ended.")


def subscriptions(
    invocation: Invocation,
    group: Annotated[
        str | None, typer.Option("--group", "-g", metavar="NAME", help="Only this group.")
    ] = None,
) -> None:
    """List subscriptions with their conditions and quarantine errors."""
    from trunkline.broker import subscription_calls

    with invocation.session() as session:
        rows = session.run(subscription_calls.subscriptions(group))
    invocation.print(rows, columns=_LISTED, nothing="No subscriptions.")


def explain(
    invocation: Invocation,
    condition: Condition = None,
    params: Params = "{}",
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", help="Number of recent events to try.")
    ] = 1_000,
) -> None:
    """Explain a condition: index or scan, matches among recent events, time, error."""
    from trunkline.broker import subscription_calls

    call = subscription_calls.explain(condition, _params(params), max_events=limit)
    with invocation.session() as session:
        explained = session.run(call)
    invocation.print_one(explained)


def resume(
    invocation: Invocation,
    subscription: Number,
    retry: Annotated[
        bool, flag("--retry", help="Try the event that failed again, instead of leaving it out.")
    ] = False,
    from_: Annotated[
        int | None,
        typer.Option("--from", metavar="POSITION", help="Go on from here: events before it left."),
    ] = None,
) -> None:
    """Resume a quarantined subscription from where it stopped."""
    from trunkline.broker import subscription_calls

    with invocation.session() as session:
        position = session.run(
            subscription_calls.resume(subscription, skip=not retry, from_position=from_)
        )
    say(f"Subscription {subscription} is matched from position {position} on.")


def _params(text: str) -> dict[str, Any]:
    from trunkline.cli import inputs
    from trunkline.core.errors import Invalid

    params = inputs.json_value(text, name="--params")
    if not isinstance(params, dict):
        raise Invalid(f"--params is a JSON object, got {text}.")
    return params


def _beginning(text: str | None) -> dict[str, Any]:
    from trunkline.cli import inputs

    if text is None:
        return {}
    place = inputs.start(text, words=(), number="a position")
    return {"from_position" if isinstance(place, int) else "from_time": place}
