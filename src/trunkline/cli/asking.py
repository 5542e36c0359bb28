"""One rule for every command that destroys what cannot be got back.

On a terminal it asks first. Where there is none nobody can be asked: it is refused at once, with
exit code 2 and nothing done, unless ``--yes`` says that it is meant.
"""

import sys
from typing import Annotated

import typer

from trunkline.cli.invocation import flag

Yes = Annotated[bool, flag("--yes", help="Do not ask; required in scripts.")]


def ask(question: str, *, yes: bool) -> None:
    """Let a person confirm what cannot be undone; a program says ``--yes``."""
    from trunkline.core.errors import BadRequest

    if yes:
        return
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr)):
        raise BadRequest(
            "this cannot be undone, and there is no terminal to ask at.", hint="Add --yes."
        )
    typer.confirm(question, abort=True, err=True)
