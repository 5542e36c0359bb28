"""``trunkline tube``: tubes, their tables, and keys touched by hand."""

import sys
from typing import Annotated

import typer

from trunkline.cli.asking import Yes, ask
from trunkline.cli.helping import commands
from trunkline.cli.invocation import Invocation, command, flag
from trunkline.cli.output import say
from trunkline.core.words import counted

app = commands("Which rows changed, as keys, in order, into any downstream.")

Tube = Annotated[str, typer.Argument(metavar="TUBE", help="The tube.")]
SomeTube = Annotated[str | None, typer.Argument(metavar="TUBE", help="Only this tube.")]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="The table, with its schema.")]
Shard = Annotated[
    str | None,
    typer.Option(metavar="N|EXPRESSION", help="A number, or an expression over the row."),
]
Condition = Annotated[
    str | None,
    typer.Option(metavar="EXPRESSION", help="Only rows that meet it; '' removes it."),
]

_LISTED = (
    "tube",
    "owner",
    "lanes",
    "condition",
    "relation",
    "shard",
    "key_columns",
    "table_condition",
)


@command(app, example="trunkline tube ensure search --lanes 4", reads=True, panel="Tubes")
def ensure(
    invocation: Invocation,
    tube: Tube,
    lanes: Annotated[
        int | None, typer.Option(metavar="N", help="How many workers may share the work.")
    ] = None,
    condition: Condition = None,
) -> None:
    """Create a tube, or change its lanes and condition; other settings stay."""
    from trunkline.tube import calls

    with invocation.session() as session:
        made = session.run(calls.ensure(tube, lanes=lanes, condition=condition))
    invocation.print_one(made, columns=("tube", "lanes", "condition", "created_at"))


@command(app, example="trunkline tube drop search --yes", panel="Tubes")
def drop(
    invocation: Invocation,
    tube: Tube,
    force: Annotated[
        bool, flag("--force", help="Also when entries are not delivered yet.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Drop a tube and detach all its tables."""
    from trunkline.tube import calls

    ask(f"Drop {tube} and detach its tables?", yes=yes)
    with invocation.session() as session:
        session.run(calls.drop(tube, force=force))
    say(f"Dropped {tube}.")


@command(
    app,
    example="trunkline tube attach search app.products --condition 'not hidden'",
    reads=True,
    panel="Tubes",
)
def attach(
    invocation: Invocation,
    tube: Tube,
    table: Table,
    shard: Shard = None,
    condition: Condition = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN", help="A key column; else the primary key."),
    ] = None,
    on_error: Annotated[
        str | None,
        typer.Option(
            metavar="fail|gap", help="A write that cannot be captured fails (default), or passes."
        ),
    ] = None,
) -> None:
    """Capture the changes of a table into a tube; what is not named stays for one attached."""
    from trunkline.tube import calls

    with invocation.session() as session:
        attached = session.run(
            calls.attach(
                tube, table, shard=shard, condition=condition, key_columns=key, on_error=on_error
            )
        )
    columns = ("attachment", "relation", "key_columns", "shard", "shard_expression", "condition")
    invocation.print_one(attached, columns=columns)


@command(app, example="trunkline tube detach search app.products", panel="Tubes")
def detach(invocation: Invocation, tube: Tube, table: Table) -> None:
    """Stop capturing a table; what is queued is still delivered."""
    from trunkline.core.errors import NotFound
    from trunkline.tube import calls

    with invocation.session() as session:
        was_attached = session.run(calls.detach(tube, table))
    if not was_attached:
        raise NotFound(f"table {table} is not attached to {tube}.")
    say(f"Detached {table} from {tube}.")


@command(app, "list", example="trunkline tube list --json", reads=True, panel="Tubes")
def list_tubes(
    invocation: Invocation,
    relation: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Only tubes that this table feeds.")
    ] = None,
) -> None:
    """List tubes and their tables."""
    from trunkline.tube import calls

    with invocation.session() as session:
        rows = session.run(calls.list_tubes(relation))
    nothing = "No tubes." if relation is None else f"Table {relation} feeds no tube."
    invocation.print(rows, columns=_LISTED, nothing=nothing)


@command(app, example="trunkline tube touch search app.products 17 18", panel="Keys")
def touch(
    invocation: Invocation,
    tube: Tube,
    table: Table,
    keys: Annotated[
        list[str], typer.Argument(metavar="KEY", help="Keys; - reads them from standard input.")
    ],
    shard: Annotated[
        int | None, typer.Option(metavar="N", help="The shard, where the table has no fixed one.")
    ] = None,
    payload: Annotated[
        str | None, typer.Option(metavar="JSON", help="Goes along with the keys.")
    ] = None,
) -> None:
    """Deliver keys as if their rows had changed."""
    from trunkline.cli import inputs
    from trunkline.tube import calls

    if keys == ["-"]:
        keys = [line.rstrip("\n") for line in sys.stdin if line.strip()]
    parsed = None if payload is None else inputs.json_value(payload, name="--payload")
    with invocation.session() as session:
        n = session.run(calls.touch(tube, table, keys, payload=parsed, shard=shard))
    say(f"Touched {counted(n, 'key')}.")


@command(
    app,
    example=(
        'trunkline tube insert search "select id from app.products where price > 9"'
        " --shard 0 --relation app.products"
    ),
    panel="Keys",
)
def insert(
    invocation: Invocation,
    tubes: Annotated[str, typer.Argument(metavar="TUBE[,TUBE]", help="One or several tubes.")],
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="A select whose first column is the key.")
    ],
    shard: Annotated[int, typer.Option(metavar="N", help="The shard of the keys.")],
    relation: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="The table of the keys; downstreams need it."),
    ] = None,
    op: Annotated[str, typer.Option(metavar="I|U|D|T|B", help="The operation.")] = "B",
) -> None:
    """Deliver every key that a query returns, in one or several tubes."""
    from trunkline.tube import calls

    with invocation.session() as session:
        session.connection.add_notice_handler(_progress)
        names = [name.strip() for name in tubes.split(",")]
        n = session.run(calls.insert(names, query, shard=shard, op=op, relation=relation))
    say(f"Touched {counted(n, 'key')}.")


@command(app, example="trunkline tube parked search", reads=True, panel="Keys")
def parked(
    invocation: Invocation,
    tube: SomeTube = None,
    retry: Annotated[bool, flag("--retry", help="Retry all of them.")] = False,
) -> None:
    """List parked keys: those that kept failing."""
    from trunkline.core.errors import BadRequest
    from trunkline.tube import calls

    with invocation.session() as session:
        if retry:
            if tube is None:
                raise BadRequest("--retry needs a tube.", hint="trunkline tube parked TUBE --retry")
            again = session.run(calls.unpark(tube))
            say(f"{counted(again, 'key is', 'keys are')} tried again.")
            return
        rows = session.run(calls.parked(tube))
    invocation.print(rows, nothing="No key is parked.")


def _progress(notice: object) -> None:
    """The server's progress, as people read it."""
    import json

    try:
        told = json.loads(getattr(notice, "message_primary", None) or "")
        if not told["finished"]:
            say(f"{counted(told['keys'], 'key')} in {told['seconds']:.0f} s")
    except (ValueError, KeyError, TypeError):
        return
