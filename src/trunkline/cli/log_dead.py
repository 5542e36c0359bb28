"""``trunkline log dead``: messages that readers of shared groups failed with for good."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from trunkline.cli.asking import Yes, ask
from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command
from trunkline.cli.log import Topic
from trunkline.cli.log_groups import SomeGroup, SomeTopic
from trunkline.cli.output import say
from trunkline.core.words import counted

dead = commands("Messages that readers of shared groups failed with for good.")

_LISTED = (
    *("letter", "topic", "group_name", "partition", "offset", "key"),
    *("attempts", "reason", "failed_at"),
)

Letters = Annotated[
    list[int] | None, typer.Argument(metavar="NUMBER", help="Dead letters by their numbers.")
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    app.add_typer(dead, name="dead", rich_help_panel="Groups")


@command(dead, "list", example="trunkline log dead list orders --group billing", reads=True)
def list_dead(invocation: Invocation, topic: SomeTopic = None, group: SomeGroup = None) -> None:
    """List dead letters, newest first."""
    from trunkline.log import dead_calls

    with invocation.session() as session:
        rows = session.run(dead_calls.dead_list(topic, group=group))
    invocation.print(rows, columns=_LISTED, nothing="No dead letters.")


@command(dead, "show", example="trunkline log dead show orders 17", reads=True)
def show_dead(
    invocation: Invocation,
    topic: Topic,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="The dead letter.")],
) -> None:
    """Show one dead letter: the message and why it failed."""
    from trunkline.log import dead_calls

    with invocation.session() as session:
        call = replace(dead_calls.dead_show(topic, number), json_text=True)
        invocation.print_one(session.run(call))


@command(dead, "retry", example="trunkline log dead retry orders --group billing")
def retry_dead(
    invocation: Invocation, topic: Topic, numbers: Letters = None, group: SomeGroup = None
) -> None:
    """Append dead letters to their topic again: some, or all of a group."""
    from trunkline.log import dead_calls

    total = _each(invocation, dead_calls.dead_retry, topic, numbers, group)
    say(f"{_letters(total)} tried again.")


@command(dead, "discard", example="trunkline log dead discard orders 17 18 --yes")
def discard_dead(
    invocation: Invocation,
    topic: Topic,
    numbers: Letters = None,
    group: SomeGroup = None,
    yes: Yes = False,
) -> None:
    """Discard dead letters: some, or all of a group."""
    from trunkline.log import dead_calls

    which = counted(len(numbers), "dead letter") if numbers else f"all dead letters of {group}"
    if numbers or group:  # else the call says what is missing
        ask(f"Give {which} up?", yes=yes)
    total = _each(invocation, dead_calls.dead_discard, topic, numbers, group)
    say(f"{_letters(total)} discarded.")


def _letters(n: int) -> str:
    return counted(n, "dead letter is", "dead letters are")


def _each(
    invocation: Invocation, build: Any, topic: str, numbers: list[int] | None, group: str | None
) -> int:
    with invocation.session() as session, session.connection.transaction():
        if not numbers:
            return int(session.run(build(topic, group=group)))
        return sum(session.run(build(topic, number, group=group)) for number in numbers)
