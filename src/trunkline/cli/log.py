"""``trunkline log``: topics; the modules ``log_*`` add what is done with them."""

from typing import Annotated, Any

import typer

from trunkline.cli import output
from trunkline.cli.asking import Yes, ask
from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.output import Format, say
from trunkline.core import durations

app = commands("Topics of messages, and groups that consume them.")

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Group = Annotated[str, typer.Option("--group", "-g", metavar="NAME", help="The group.")]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", metavar="N", help="Only this partition.")
]
Retention = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help='How long to keep messages: 7d, "30 minutes", forever.'),
]
RetentionBytes = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="How much to keep per partition: 500MB, 10GiB, forever."),
]
Codec = Annotated[
    str | None, typer.Option(metavar="none|zstd", help="How clients pack batches by default.")
]

Archive = Annotated[
    bool | None,
    flag(
        "--archive/--no-archive",
        help="Keep messages until `trunkline spark archive` has copied them.",
    ),
]

_SETTINGS = ("topic", "partitions", "retention", "retention_bytes", "compact", "codec", "archive")


@command(
    app,
    example="trunkline log create orders --partitions 4 --retention 7d",
    reads=True,
    panel="Topics",
)
def create(
    invocation: Invocation,
    topic: Topic,
    partitions: Annotated[
        int, typer.Option("--partitions", metavar="N", help="Number of partitions.")
    ] = 1,
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    compact: Annotated[
        bool, flag("--compact", help="Keep at least the last value of each key.")
    ] = False,
    codec: Codec = "none",
    early_release: Annotated[
        bool,
        flag("--early-release", help="Many writers on a slow disk; see the reference."),
    ] = False,
    archive: Archive = None,
) -> None:
    """Create a topic; does nothing if it exists with the same settings."""
    from trunkline.cli import inputs
    from trunkline.log import calls

    call = calls.create(
        topic,
        partitions=partitions,
        retention=inputs.retention(retention),
        retention_bytes=inputs.retention_bytes(retention_bytes),
        compact=compact,
        codec=codec or "none",
        early_release=early_release,
        archive=bool(archive),
    )
    with invocation.session() as session:
        invocation.print_one(_settings(session.run(call)), columns=_SETTINGS)


@command(
    app,
    example="trunkline log alter orders --retention forever --partitions 8",
    reads=True,
    panel="Topics",
)
def alter(
    invocation: Invocation,
    topic: Topic,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", metavar="N", help="More partitions; keys are mapped again from now on."
        ),
    ] = None,
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    codec: Codec = None,
    early_release: Annotated[
        bool | None,
        flag("--early-release/--no-early-release", help="As for create."),
    ] = None,
    archive: Archive = None,
) -> None:
    """Change settings of a topic; other settings stay."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest
    from trunkline.log import calls

    asked = (partitions, retention, retention_bytes, codec, early_release, archive)
    if all(value is None for value in asked):
        raise BadRequest("nothing to change.", hint="Name a setting, such as --retention 7d.")
    call = calls.alter(
        topic,
        partitions=partitions,
        retention=None if retention is None else inputs.retention(retention) or "infinity",
        retention_bytes=(
            None if retention_bytes is None else inputs.retention_bytes(retention_bytes) or 0
        ),
        codec=codec,
        early_release=early_release,
        archive=archive,
    )
    with invocation.session() as session:
        before = session.run(calls.settings(topic)).partitions
        changed = session.run(call)
    invocation.print_one(_settings(changed), columns=_SETTINGS)
    if changed.partitions != before:
        say("Keys map to other partitions from the next message on.")


@command(app, example="trunkline log delete orders --yes", panel="Topics")
def delete(
    invocation: Invocation,
    topic: Topic,
    yes: Yes = False,
) -> None:
    """Delete a topic with its messages and groups."""
    from trunkline.log import calls

    with invocation.session() as session:
        session.run(calls.settings(topic))
        ask(f"Delete {topic} with all its messages?", yes=yes)
        session.run(calls.delete(topic))
    say(f"Deleted {topic}.")


@command(app, "list", example="trunkline log list", reads=True, panel="Topics")
def list_topics(invocation: Invocation) -> None:
    """List topics with their settings and sizes."""
    from trunkline.log import calls

    with invocation.session() as session:
        topics = session.run(calls.list_topics())
    columns = ("topic", "partitions", "messages", "bytes", "retention", "compact", "codec")
    invocation.print(topics, columns=columns, nothing="No topics.")


@command(app, example="trunkline log describe orders", reads=True, panel="Topics")
def describe(invocation: Invocation, topic: Topic) -> None:
    """Show the partitions of a topic: offsets, segments, bytes, what is archived."""
    from trunkline.log import calls

    with invocation.session() as session:
        settings = session.run(calls.settings(topic))
        partitions = session.run(calls.describe(topic))
    if invocation.format is Format.TABLE:
        say(_in_words(settings) + "\n")
    invocation.print(partitions)


def _settings(topic: Any) -> dict[str, Any]:
    return {name: value for name, value in output.as_row(topic).items() if name != "topic_id"}


def _in_words(topic: Any) -> str:
    kept = [
        *([] if topic.retention is None else [durations.told(topic.retention)]),
        *([] if topic.retention_bytes is None else [output.size(topic.retention_bytes)]),
    ]
    words = [
        f"{topic.topic}: kept {' or '.join(kept) or 'for ever'}",
        f"codec {topic.codec}",
        *(["compacted"] if topic.compact else []),
        *(["archived"] if topic.archive else []),
        *(["early release"] if topic.early_release else []),
    ]
    return ", ".join(words)
