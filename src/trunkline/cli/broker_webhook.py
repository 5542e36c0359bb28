"""``trunkline broker webhook`` and ``receive``: events posted to URLs, and a place to post them."""

from typing import Annotated, Any

import typer

from trunkline.cli.asking import Yes, ask
from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.output import say

webhook = commands("Events posted to URLs.")

_LISTED = (
    "webhook",
    "group_name",
    "url",
    "condition",
    "signatures",
    "waiting",
    "dead",
    "paused_because",
)
_LOGGED = ("at", "webhook", "message", "attempt", "status", "milliseconds", "error")

Number = Annotated[int, typer.Argument(metavar="NUMBER", help="The webhook.")]
Secret = Annotated[
    str | None,
    typer.Option(
        metavar="SECRET",
        envvar="TRUNKLINE_WEBHOOK_SECRET",
        help="Base64 of 24 to 64 bytes, with or without whsec_ before it.",
    ),
]
Sign = Annotated[bool, flag("--sign", help="Create a secret; it is printed only once.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    app.add_typer(webhook, name="webhook", rich_help_panel="Webhooks")
    command(
        app, example="trunkline broker receive --port 8801 --secret whsec_...", panel="Webhooks"
    )(receive)


@command(
    webhook,
    example="""trunkline broker webhook add shop https://shop.example/hook --sign""",
    reads=True,
)
def add(
    invocation: Invocation,
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    url: Annotated[str, typer.Argument(metavar="URL", help="Where to post, http or https.")],
    condition: Annotated[
        str | None,
        typer.Argument(
            metavar="CONDITION", help="SQL over e and s, or JSON; without it, every event."
        ),
    ] = None,
    params: Annotated[
        str, typer.Option(metavar="JSON", help="What the condition reads as s.params.")
    ] = "{}",
    secret: Secret = None,
    sign: Sign = False,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header that goes along; may be repeated."),
    ] = None,
    retry: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DURATIONS",
            help='Waits before each further try: "5s, 1m, 2h"; may be repeated.',
        ),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="For the whole answer.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(metavar="N", help="Events in one request at most.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="Requests at once at most.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="standard or cloudevents.")
    ] = None,
    ordering: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="strict, or skip: later events of a key do not wait."),
    ] = None,
) -> None:
    """Post the events of a group to a URL from now on; print the webhook's number."""
    from trunkline.broker import webhook_calls
    from trunkline.cli import inputs

    made = _secret(secret, sign=sign)
    call = webhook_calls.add(
        group,
        url,
        condition,
        inputs.json_value(params, name="--params"),
        secret=made,
        headers=inputs.headers(header),
        retry=_waits(",".join(retry)) if retry else None,
        timeout=None if timeout is None else inputs.duration(timeout, option="--timeout"),
        batch=batch,
        format=shape,
        concurrency=concurrency,
        ordering=ordering,
    )
    with invocation.session() as session:
        number = session.run(call)
    invocation.print_one({"webhook": number, **({"secret": made} if sign else {})})


@command(webhook, "list", example="trunkline broker webhook list --group shop", reads=True)
def list_webhooks(
    invocation: Invocation,
    group: Annotated[
        str | None, typer.Option("--group", metavar="GROUP", help="Of this group.")
    ] = None,
) -> None:
    """List webhooks and their state, without secrets."""
    from trunkline.broker import webhook_calls

    with invocation.session() as session:
        rows = session.run(webhook_calls.webhooks(group))
    invocation.print(rows, columns=_LISTED, nothing="No webhooks.")


@command(webhook, example="trunkline broker webhook rotate 3 --sign --overlap 1d", reads=True)
def rotate(
    invocation: Invocation,
    number: Number,
    secret: Secret = None,
    sign: Sign = False,
    overlap: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the old secret also signs.")
    ] = "1d",
) -> None:
    """Sign with a new secret; the old one also signs for a while."""
    from trunkline.broker import webhook_calls
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest

    made = _secret(secret, sign=sign)
    if made is None:
        raise BadRequest(
            "a rotation needs a secret.", hint="Give --secret, or --sign for a new one."
        )
    wait = inputs.duration(overlap, option="--overlap")
    with invocation.session() as session:
        session.run(webhook_calls.rotate(number, made, overlap=wait))
    invocation.print_one({"webhook": number, **({"secret": made} if sign else {})})


@command(webhook, example="trunkline broker webhook pause 3 --reason 'moving'")
def pause(
    invocation: Invocation,
    number: Number,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Shown in lists.")] = None,
) -> None:
    """Stop sending until resumed; new events wait."""
    from trunkline.broker import webhook_calls

    with invocation.session() as session:
        done = session.run(webhook_calls.pause(number, reason))
    say(f"Webhook {number} {'is' if done else 'was already'} paused.")


@command(webhook, example="trunkline broker webhook resume 3")
def resume(invocation: Invocation, number: Number) -> None:
    """Send again from where it was paused."""
    from trunkline.broker import webhook_calls

    with invocation.session() as session:
        done = session.run(webhook_calls.resume(number))
    say(f"Webhook {number} {'is resumed' if done else 'was not paused'}.")


@command(webhook, example="trunkline broker webhook remove 3 --yes")
def remove(invocation: Invocation, number: Number, yes: Yes = False) -> None:
    """Remove a webhook with its positions, retries and dead letters."""
    from trunkline.broker import webhook_calls
    from trunkline.core.errors import NotFound

    with invocation.session() as session:
        ask(f"Remove webhook {number} with its positions and dead letters?", yes=yes)
        if not session.run(webhook_calls.remove(number)):
            raise NotFound(
                f"there is no webhook {number}.", hint="List them: trunkline broker webhook list"
            )
    say(f"Webhook {number} is removed.")


@command(webhook, example="trunkline broker webhook log 3 --limit 20", reads=True)
def log(
    invocation: Invocation,
    number: Annotated[
        int | None, typer.Argument(metavar="NUMBER", help="The webhook; without it, all.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, help="Entries.")] = 100,
) -> None:
    """List deliveries and their answers, newest first."""
    from trunkline.broker import webhook_calls

    with invocation.session() as session:
        rows = session.run(webhook_calls.log(number, max_entries=limit))
    invocation.print(rows, columns=_LOGGED, nothing="Nothing was sent.")


def receive(
    _invocation: Invocation,
    port: Annotated[
        int, typer.Option(metavar="PORT", min=0, max=65535, help="0: any that is free.")
    ] = 8801,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    secret: Secret = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", metavar="N", min=1, help="Stop after N events.")
    ] = None,
) -> None:
    """Take webhooks, verify them, and print each event as a line of JSON; for trying things out."""
    from trunkline.cli.receiver import serve

    serve(host, port, secret=secret, limit=limit)


def _secret(given: str | None, *, sign: bool) -> str | None:
    import secrets
    from base64 import b64encode

    return f"whsec_{b64encode(secrets.token_bytes(32)).decode()}" if sign else given


def _waits(text: str) -> list[Any]:
    from trunkline.cli import inputs

    parts = [part for part in text.split(",") if part.strip()]
    return [inputs.duration(part, option="--retry") for part in parts]
