"""``trunkline broker``: events, published and numbered."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command, run_async
from trunkline.cli.lines import lines, opened
from trunkline.cli.output import say
from trunkline.core.words import counted

app = commands("Events that belong to your transaction, delivered by condition.")

_PLEASE = "Type payloads, one JSON value per line; ctrl-D ends."

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", "-k", metavar="KEY", help="Events with the same key are handled in order."
    ),
]
Metadata = Annotated[
    str | None, typer.Option(metavar="JSON", help="An object that goes along with the payload.")
]
DeliverAt = Annotated[
    str | None,
    typer.Option("--deliver-at", metavar="TIME", help='Deliver at this time, or "in 10m".'),
]
Subscription = Annotated[
    int | None, typer.Option(metavar="NUMBER", help="Deliver to this subscription only.")
]


@command(
    app,
    example="""trunkline broker publish orders.made '{"order": 7}' --key 7""",
    reads=True,
    panel="Events",
)
def publish(
    invocation: Invocation,
    topic: Topic,
    payload: Annotated[
        str,
        typer.Argument(
            metavar="PAYLOAD",
            help="JSON; - or nothing: one payload per line of standard input, all or none.",
        ),
    ] = "-",
    key: Key = None,
    metadata: Metadata = None,
    deliver_at: DeliverAt = None,
    subscription: Subscription = None,
) -> None:
    """Publish events in one transaction; prints their ids."""
    from trunkline.broker import calls

    shape = _shape(topic, key, metadata, deliver_at, subscription)
    texts = _typed() if payload == "-" else [("the payload", payload)]
    events = [_event(shape, name, text) for name, text in texts]
    with invocation.session() as session:
        ids = session.run(calls.publish_many(events))
    invocation.print([{"event_id": event_id, "topic": topic} for event_id in ids])


@command(
    app,
    example="jq -c '.[]' orders.json | trunkline broker enqueue orders.made",
    panel="Events",
)
def enqueue(
    invocation: Invocation,
    topic: Topic,
    key: Key = None,
    metadata: Metadata = None,
    deliver_at: DeliverAt = None,
    subscription: Subscription = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Events per transaction.")] = 1_000,
) -> None:
    """Publish one payload per line of standard input, in batches as they come."""
    shape = _shape(topic, key, metadata, deliver_at, subscription)
    run_async(_enqueue(invocation, shape, batch))


@command(app, example="trunkline broker tick", panel="Events")
def tick(invocation: Invocation) -> None:
    """Publish due events and number committed ones once, as the services do."""
    from trunkline.broker import calls

    with invocation.session() as session:
        released = session.run(calls.release())
        numbered = session.run(calls.tick())
    due = counted(released, "event was", "events were")
    say(f"{due} due, {numbered} got a position.")


async def _enqueue(invocation: Invocation, shape: dict[str, Any], batch: int) -> None:
    import asyncio

    published = 0

    def count(answer: "asyncio.Future[int]") -> None:
        nonlocal published
        published += not answer.cancelled() and answer.exception() is None

    number = 0
    try:
        async with invocation.platform() as platform:
            enqueuer = platform.broker.enqueuer(batch_events=batch)
            with opened(None) as source:
                if source.typed:
                    say(_PLEASE)
                async for some in lines(source):
                    for line in some:
                        number += 1
                        if line.strip():
                            event = _event(
                                shape, f"line {number}", line.decode(errors="surrogateescape")
                            )
                            (await enqueuer.enqueue(event)).add_done_callback(count)
                    await asyncio.sleep(0)
    finally:
        say(f"{counted(published, 'event was', 'events were')} published.")


def _shape(
    topic: str,
    key: str | None,
    metadata: str | None,
    deliver_at: str | None,
    subscription: int | None,
) -> dict[str, Any]:
    """What the events of one command have in common."""
    from trunkline.cli import inputs

    return {
        "topic": topic,
        "key": key,
        "metadata": None if metadata is None else inputs.json_text(metadata, name="--metadata"),
        "deliver_at": None if deliver_at is None else inputs.moment(deliver_at),
        "subscription": subscription,
    }


def _event(shape: dict[str, Any], name: str, payload: str) -> Any:
    from trunkline.broker.models import NewEvent
    from trunkline.cli import inputs

    return NewEvent(payload=inputs.json_text(payload, name=name), **shape)


def _typed() -> Iterator[tuple[str, str]]:
    """Lines of standard input and what to call them; empty ones are left out."""
    with opened(None) as source:
        if source.typed:
            say(_PLEASE)
    for number, line in enumerate(sys.stdin, start=1):
        if line.strip():
            yield f"line {number}", line
