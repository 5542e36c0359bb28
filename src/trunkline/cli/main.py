"""The command ``trunkline``: the tree of commands, and what becomes of their errors.

Exit codes: 0 done, 1 failed, 2 misused, 3 not found, 4 conflict.
"""

import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from types import FrameType
from typing import Annotated, Any, TextIO

import typer

from trunkline.cli import (
    broker,
    broker_bench,
    broker_forward,
    broker_groups,
    broker_handlers,
    broker_stream,
    broker_subscriptions,
    broker_watch,
    broker_webhook,
    db,
    demo,
    doctor,
    kv,
    kv_parade,
    live,
    log,
    log_append,
    log_dead,
    log_groups,
    log_read,
    log_upkeep,
    objects,
    serve,
    spark,
    spark_archive,
    spark_bench,
    spark_replay,
    spark_tube,
    tube,
    tube_run,
    up,
    why,
)
from trunkline.cli.dialect import hint_in_our_words, message_in_our_words
from trunkline.cli.helping import Group
from trunkline.cli.invocation import Debug, Dsn, Instance, Invocation
from trunkline.cli.output import say
from trunkline.version import __version__

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
_EXIT_CODES = {"TL400": 2, "TL404": 3, "TL409": 4, "TL422": 2, "TL423": 4}

app = typer.Typer(
    name="trunkline",
    cls=Group,
    help="Transactional events, topics, change data capture and live queries on Postgres.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
up.add_to(app)
serve.add_to(app)
doctor.add_to(app)
why.add_to(app)
demo.add_to(app)
app.add_typer(db.app, name="db")
app.add_typer(objects.app, name="object")
app.add_typer(log.app, name="log")
for part in (log_append, log_read, log_groups, log_dead, log_upkeep):
    part.add_to(log.app)
app.add_typer(broker.app, name="broker")
for part in (
    broker_subscriptions,
    broker_groups,
    broker_stream,
    broker_forward,
    broker_handlers,
    broker_watch,
    broker_webhook,
    broker_bench,
):
    part.add_to(broker.app)
app.add_typer(live.app, name="live")
app.add_typer(tube.app, name="tube")
tube_run.add_to(tube.app)
app.add_typer(kv.app, name="kv")
kv_parade.add_to(kv.app)
app.add_typer(spark.app, name="spark")
for part in (spark_archive, spark_tube, spark_replay, spark_bench):
    part.add_to(spark.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback(epilog="Example: trunkline up, and in another terminal: trunkline log list")
def options(
    context: typer.Context,
    dsn: Dsn = None,
    instance: Instance = None,
    debug: Debug = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
            metavar="",
        ),
    ] = False,
) -> None:
    context.obj = Invocation(dsn, instance, debug)


@cache
def tree() -> Any:
    """All commands."""
    return typer.main.get_command(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = tree().main(args=words, prog_name="trunkline", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _forget_stdout()
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except typer.Abort:
        say("Nothing was done.")
        return 1
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _forget_stdout()
        if "--debug" in words and not hasattr(error, "format_message"):
            raise
        return _report(error)
    return code if isinstance(code, int) else 0


def run() -> None:
    """Run the command that this process was started with, and exit."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    sys.stdout = _whole(sys.stdout)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    if isinstance(sys.stdin, io.TextIOWrapper):  # what is no text is refused where it is used
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main())


def _whole(stream: TextIO) -> TextIO:
    """A stream that writes all it is given: an unbuffered one may drop a part of it."""
    if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, io.RawIOBase):
        return io.TextIOWrapper(io.BufferedWriter(stream.detach()), line_buffering=True)
    return stream


def _end(number: int, _frame: FrameType | None) -> None:
    """Unwind instead of dying where we stand: groups are left, an embedded server is stopped."""
    sys.exit(128 + number)


def _report(error: Exception) -> int:
    from trunkline.core.errors import TrunklineError
    from trunkline.core.extras import missing_package
    from trunkline.core.telemetry import redact

    if isinstance(error, ImportError):
        error = missing_package(error, "this command") or error
    if isinstance(error, TrunklineError):
        message = message_in_our_words(error.message)
        _complain(redact(message), redact(hint_in_our_words(error.hint, tree())))
        return _EXIT_CODES.get(error.code, 1)
    if hasattr(error, "format_message"):
        return _report_misuse(error)
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        _complain(f"the output cannot be written: {error.strerror}.", "")
        return 1
    _complain(
        f"unexpected {type(error).__name__}: {redact(str(error))}",
        "This is a defect of Trunkline. Report it with the traceback that --debug prints.",
    )
    return 1


def _report_misuse(error: Any) -> int:
    """Typer's own errors, without a picture frame around them."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return 2  # the help is printed already
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "trunkline"
    _complain(_in_full(error), f"Try: {path} --help")
    return int(error.exit_code)


def _in_full(error: Any) -> str:
    """What was expected and what came: Pydantic, whom Typer asks, tells only the former."""
    if not hasattr(error.__cause__, "errors"):
        return str(error.format_message())
    fault = error.__cause__.errors()[0]
    option = error.param.opts[0]
    name = option if option.startswith("-") else error.param.metavar
    limits, came = fault.get("ctx", {}), fault["input"]
    if "ge" in limits:
        return f"{name} is at least {limits['ge']}, got {came}."
    if "le" in limits:
        return f"{name} is at most {limits['le']}, got {came}."
    number = "a whole number" if fault["type"].startswith("int") else "a number"
    return f'{name} takes {number}, got "{came}".'


def _complain(message: str, hint: str) -> None:
    say(f"error: {message.strip()}")
    if hint:
        say(f" hint: {hint.strip()}")


def _forget_stdout() -> None:
    """Nobody reads any more: let what is still buffered go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
