"""How commands show their help: as it is usual, whatever Typer makes of types and arguments."""

import re
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from trunkline.cli.suggesting import suggestions


class _Usual:
    """Flags have no type beside them, and what is required no braces around it."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for option in params:
            if getattr(option, "is_flag", False):
                option.metavar = ""
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [re.sub(r"^\{(.*)\}", r"\1", piece) for piece in pieces]


class Command(_Usual, TyperCommand):
    """One command."""


class Group(_Usual, TyperGroup):
    """Commands under one name; without an example of their own the first one's is theirs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.epilog = self.epilog or next(found.epilog for found in self.commands.values())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        word = args[0]
        if word[:1].isalnum() and self.get_command(ctx, word) is None:
            program, _, group = ctx.command_path.partition(" ")
            meant = suggestions(ctx.find_root().command, group, word)
            question = f" Did you mean: {', '.join(f'{program} {path}' for path in meant)}?"
            ctx.fail(f'there is no command "{word}".{question if meant else ""}')
        return super().resolve_command(ctx, args)


def commands(help: str) -> typer.Typer:  # noqa: A002 - as in Typer
    """Commands under one name, which shows its help where none of them is named."""
    return typer.Typer(cls=Group, help=help, no_args_is_help=True)
