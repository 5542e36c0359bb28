"""``trunkline log``: topics, groups and upkeep; messages themselves are in `messages`."""

import sys
from typing import Annotated, Any

import typer

from trunkline.cli import output
from trunkline.cli.invocation import Invocation, Session, command, flag
from trunkline.cli.output import Format, say

app = typer.Typer(help="Topics of messages, and groups that consume them.", no_args_is_help=True)

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
SomeTopic = Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="Only this topic.")]
Group = Annotated[str, typer.Option("--group", "-g", metavar="NAME", help="The group.")]
SomeGroup = Annotated[
    str | None, typer.Option("--group", "-g", metavar="NAME", help="Only this group.")
]
Partition = Annotated[
    int | None, typer.Option("--partition", "-p", metavar="N", help="Only this partition.")
]
Retention = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help='How long messages stay: 7d, "30 minutes", forever.'),
]
RetentionBytes = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="How much of a partition stays: 500MB, 10GiB, forever."),
]
Codec = Annotated[
    str | None, typer.Option(metavar="none|zstd", help="How clients pack batches by default.")
]

_SETTINGS = ("topic", "partitions", "retention", "retention_bytes", "compact", "codec")


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
        int, typer.Option("--partitions", metavar="N", help="How many partitions.")
    ] = 1,
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    compact: Annotated[
        bool, flag("--compact", help="Of each key only the last value need stay.")
    ] = False,
    codec: Codec = "none",
    early_release: Annotated[
        bool,
        flag("--early-release", help="Many writers on a slow disk; see the reference."),
    ] = False,
) -> None:
    """Create a topic; harmless when it is there with the same settings."""
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
        typer.Option("--partitions", metavar="N", help="More partitions: keys move from now on."),
    ] = None,
    retention: Retention = None,
    retention_bytes: RetentionBytes = None,
    codec: Codec = None,
    early_release: Annotated[
        bool | None,
        typer.Option("--early-release/--no-early-release", help="As for create."),
    ] = None,
) -> None:
    """Change settings of a topic; what is not named stays."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest
    from trunkline.log import calls

    asked = (partitions, retention, retention_bytes, codec, early_release)
    if all(value is None for value in asked):
        raise BadRequest("nothing to change.", hint=f"Name a setting: trunkline log alter {topic}")
    call = calls.alter(
        topic,
        partitions=partitions,
        retention=None if retention is None else inputs.retention(retention) or "infinity",
        retention_bytes=(
            None if retention_bytes is None else inputs.retention_bytes(retention_bytes) or 0
        ),
        codec=codec,
        early_release=early_release,
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
    yes: Annotated[bool, flag("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a topic with its messages and groups; a terminal is asked first."""
    from trunkline.log import calls

    with invocation.session() as session:
        session.run(calls.settings(topic))
        if sys.stdin.isatty() and not yes:
            typer.confirm(f"Delete {topic} with all its messages?", abort=True, err=True)
        session.run(calls.delete(topic))
    say(f"Deleted {topic}.")


@command(app, "list", example="trunkline log list", reads=True, panel="Topics")
def list_topics(invocation: Invocation) -> None:
    """List topics with their settings and sizes."""
    from trunkline.log import calls

    with invocation.session() as session:
        topics = session.run(calls.list_topics())
    columns = ("topic", "partitions", "messages", "bytes", "retention", "compact", "codec")
    _print(invocation, topics, columns, nothing="No topics.")


@command(app, example="trunkline log describe orders", reads=True, panel="Topics")
def describe(invocation: Invocation, topic: Topic) -> None:
    """Show the partitions of a topic: offsets, segments, bytes."""
    from trunkline.log import calls

    with invocation.session() as session:
        settings = session.run(calls.settings(topic))
        partitions = session.run(calls.describe(topic))
    if invocation.format is Format.TABLE:
        say(_in_words(settings) + "\n")
    invocation.print(partitions)


@command(
    app,
    example='trunkline log seek orders --group billing --to "2h ago"',
    reads=True,
    panel="Groups",
)
def seek(
    invocation: Invocation,
    topic: Topic,
    group: Group,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="PLACE", help='earliest, latest, an offset, a time, or "2h ago".'
        ),
    ],
    partition: Partition = None,
) -> None:
    """Move a group; members that run continue from there."""
    from trunkline.cli import inputs
    from trunkline.log import calls

    call = calls.seek(topic, group, inputs.start(to, option="--to"), partition=partition)
    with invocation.session() as session:
        places = session.run(call)
    invocation.print(
        {"partition": number, "next_offset": offset} for number, offset in places.items()
    )


@command(app, example="trunkline log groups orders", reads=True, panel="Groups")
def groups(invocation: Invocation, topic: SomeTopic = None, group: SomeGroup = None) -> None:
    """Show groups by partition: done, there, behind, owned by."""
    from trunkline.log import calls

    with invocation.session() as session:
        found = session.run(calls.groups(topic, group))
        if not found:
            _explain_nothing(session, topic, group)
    columns = (
        *("topic", "group_name", "mode", "partition", "up_to", "last_offset", "lag", "claims"),
        *("process_name", "moved_at"),
    )
    _print(invocation, found, columns, nothing="No groups.")


@command(app, example="trunkline log lag orders --group billing", reads=True, panel="Groups")
def lag(invocation: Invocation, topic: SomeTopic = None, group: SomeGroup = None) -> None:
    """Show how far groups are behind, in messages."""
    from trunkline.log import calls

    with invocation.session() as session:
        found = session.run(calls.lag(topic, group))
        if not found:
            _explain_nothing(session, topic, group)
    _print(invocation, found, None, nothing="No groups.")


@command(
    app, "group-delete", example="trunkline log group-delete orders --group billing", panel="Groups"
)
def group_delete(invocation: Invocation, topic: Topic, group: Group) -> None:
    """Forget a group and its positions."""
    from trunkline.log import calls

    with invocation.session() as session:
        session.run(calls.delete_group(topic, group))
    say(f"Forgot {group}.")


@command(
    app, example="trunkline log trim orders --partition 0 --before 1000", reads=True, panel="Upkeep"
)
def trim(
    invocation: Invocation,
    topic: Topic,
    before: Annotated[
        str,
        typer.Option(
            metavar="PLACE", help='The first to stay: an offset, a time, "30d ago", latest.'
        ),
    ],
    partition: Partition = None,
) -> None:
    """Forget everything before an offset or a time."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest
    from trunkline.log import calls

    place = inputs.start(before, option="--before")
    with invocation.session() as session:
        partitions = session.run(calls.describe(topic))
        if partition is None and isinstance(place, int) and len(partitions) > 1:
            raise BadRequest(
                f"{topic} has {len(partitions)} partitions: an offset means another message"
                " in each.",
                hint="Name one with --partition.",
            )
        rows = []
        for number in [part.partition for part in partitions] if partition is None else [partition]:
            offset = resolve(session, topic, number, place)
            rows.append(
                {
                    "partition": number,
                    "first_offset": session.run(calls.trim(topic, number, offset)),
                }
            )
    invocation.print(rows)


@command(app, example="trunkline log compact settings", reads=True, panel="Upkeep")
def compact(invocation: Invocation, topic: Topic, partition: Partition = None) -> None:
    """Compact a topic now: of each key only the last value stays."""
    from trunkline.log import calls

    with invocation.session() as session:
        removed = session.run(calls.compact(topic, partition=partition))
    invocation.print({"partition": number, "removed": count} for number, count in removed.items())


@command(app, example="trunkline log verify orders && echo whole", reads=True, panel="Upkeep")
def verify(invocation: Invocation, topic: Topic) -> None:
    """Check that offsets have no gaps; exit code 1 when something is broken."""
    from trunkline.log import calls

    with invocation.session() as session:
        checks = session.run(calls.verify(topic))
    invocation.print(checks)
    if any(check.problem for check in checks):
        raise typer.Exit(1)


@command(app, example="trunkline log bench --quick", panel="Upkeep")
def bench(
    invocation: Invocation,
    quick: Annotated[bool, flag("--quick", help="Fewer runs: an impression.")] = False,
    results: Annotated[
        str | None, typer.Option("--results", metavar="FILE", help="Write the figures as JSON.")
    ] = None,
) -> None:
    """Measure, against the plain design in the same run."""
    from importlib import import_module
    from pathlib import Path

    module = import_module("trunkline.log.bench")
    with invocation.target() as target:
        figures = module.run(target.dsn, quick=quick, json_path=Path(results) if results else None)
    if not sys.stdout.isatty():
        output.print_one(figures, Format.JSON)


def resolve(session: Session, topic: str, partition: int, place: Any) -> int:
    """A place as an offset of a partition."""
    from trunkline.log import calls

    if isinstance(place, int):
        return place
    if not isinstance(place, str):
        return session.run(calls.offset_at(topic, partition, place))
    parts = {part.partition: part for part in session.run(calls.describe(topic))}
    if partition not in parts:
        return 1  # the call that follows says what is wrong
    return (
        parts[partition].first_offset if place == "earliest" else parts[partition].last_offset + 1
    )


def _explain_nothing(session: Session, topic: str | None, group: str | None) -> None:
    from trunkline.core.errors import NotFound
    from trunkline.log import calls

    if topic is not None:
        session.run(calls.settings(topic))
    if group is not None:
        where = "" if topic is None else f' on topic "{topic}"'
        raise NotFound(f'there is no group "{group}"{where}.', hint="List them with log_groups().")


def _print(
    invocation: Invocation, rows: list[Any], columns: tuple[str, ...] | None, *, nothing: str
) -> None:
    invocation.print(rows, columns=columns)
    if not rows and invocation.format is Format.TABLE:
        say(nothing)


def _settings(topic: Any) -> dict[str, Any]:
    return {name: value for name, value in output.as_row(topic).items() if name != "topic_id"}


def _in_words(topic: Any) -> str:
    kept = [
        *([] if topic.retention is None else [output.duration(topic.retention)]),
        *([] if topic.retention_bytes is None else [output.size(topic.retention_bytes)]),
    ]
    words = [
        f"{topic.topic}: kept {' or '.join(kept) or 'for ever'}",
        f"codec {topic.codec}",
        *(["compacted"] if topic.compact else []),
        *(["early release"] if topic.early_release else []),
    ]
    return ", ".join(words)
