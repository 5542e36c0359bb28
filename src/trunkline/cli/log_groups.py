"""``trunkline log``: groups and where they stand."""

from functools import partial
from typing import Annotated

import typer

from trunkline.cli.asking import Yes, ask
from trunkline.cli.invocation import Invocation, command
from trunkline.cli.log import Group, Partition, Topic
from trunkline.cli.output import say

SomeTopic = Annotated[str | None, typer.Argument(metavar="TOPIC", help="Only this topic.")]
SomeGroup = Annotated[
    str | None, typer.Option("--group", "-g", metavar="NAME", help="Only this group.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    add = partial(command, app, panel="Groups")
    add(example='trunkline log seek orders --group billing --to "2h ago"', reads=True)(seek)
    add(example="trunkline log groups orders", reads=True)(groups)
    add(example="trunkline log lag orders --group billing", reads=True)(lag)
    add("group-delete", example="trunkline log group-delete orders --group billing --yes")(
        group_delete
    )


def seek(
    invocation: Invocation,
    topic: Topic,
    group: Group,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="PLACE", help='earliest, hot, latest, an offset, a time, or "2h ago".'
        ),
    ],
    partition: Partition = None,
) -> None:
    """Move a group to an offset or time; running members continue from there."""
    from trunkline.cli import inputs
    from trunkline.log import group_calls

    call = group_calls.seek(topic, group, inputs.start(to, option="--to"), partition=partition)
    with invocation.session() as session:
        places = session.run(call)
    invocation.print(
        {"partition": number, "next_offset": offset} for number, offset in places.items()
    )


def groups(invocation: Invocation, topic: SomeTopic = None, group: SomeGroup = None) -> None:
    """Show groups by partition: committed offset, last offset, lag, owner."""
    from trunkline.log import group_calls

    with invocation.session() as session:
        found = session.run(group_calls.groups(topic, group))
    lost = ("lost",) if any(position.lost for position in found) else ()
    claims = ("claims",) if any(position.claims for position in found) else ()
    columns = (
        *("topic", "group_name", "mode", "partition", "up_to", "last_offset", "lag"),
        *(*lost, *claims),
        *("process_name", "moved_at"),
    )
    invocation.print(found, columns=columns, nothing="No groups.")


def lag(invocation: Invocation, topic: SomeTopic = None, group: SomeGroup = None) -> None:
    """Show how far groups are behind, in messages."""
    from trunkline.log import group_calls

    with invocation.session() as session:
        found = session.run(group_calls.lag(topic, group))
    invocation.print(found, nothing="No groups.")


def group_delete(invocation: Invocation, topic: Topic, group: Group, yes: Yes = False) -> None:
    """Forget a group and its positions."""
    from trunkline.log import group_calls

    with invocation.session() as session:
        session.run(group_calls.groups(topic, group))
        ask(f"Forget {group} and where it stands in {topic}?", yes=yes)
        session.run(group_calls.group_delete(topic, group))
    say(f"Forgot {group}.")
