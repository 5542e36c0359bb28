"""``trunkline tube stats``, ``backfill``, ``downstream``, ``worker``, ``bench``: tubes at work."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.invocation import Invocation, Session, command, flag, run_async
from trunkline.cli.output import console, say
from trunkline.cli.tube import SomeTube, Tube
from trunkline.core.words import counted

if TYPE_CHECKING:
    from trunkline.tube.models import Backfill

_STATS = (
    "tube",
    "lane",
    "live_entries",
    "backfill_entries",
    "oldest_at",
    "process_name",
    "parked",
)
_BACKFILLS = ("backfill", "tube", "relation", "status", "keys_done", "keys_estimate", "waits_for")

Watch = Annotated[bool, flag("--watch", help="Refresh until interrupted.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the tree."""
    command(app, example="trunkline tube stats --watch", reads=True, panel="Work")(stats)
    command(
        app,
        example="trunkline tube backfill search --relation app.products --watch",
        reads=True,
        panel="Work",
    )(backfill)
    command(
        app,
        example="trunkline tube downstream search postgres --option table=public.documents",
        reads=True,
        panel="Work",
    )(downstream)
    command(app, example="trunkline tube worker search", panel="Work")(worker)
    command(app, example="trunkline tube bench --quick", panel="Work")(bench)


def stats(invocation: Invocation, tube: SomeTube = None, watch: Watch = False) -> None:
    """Show lanes of tubes: waiting keys, since when, owner."""
    from trunkline.tube import calls

    with invocation.session() as session:
        while True:
            session.run(calls.tick())
            if watch and sys.stdout.isatty():
                console().clear()
            rows = session.run(calls.stats(tube))
            invocation.print(rows, columns=_STATS, nothing="No tubes.")
            if not watch:
                return
            try:
                time.sleep(1)
            except KeyboardInterrupt:
                return


def backfill(
    invocation: Invocation,
    tube: Tube,
    relation: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Only this table; else all of the tube.")
    ] = None,
    order_by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="In the order of a column with an index.")
    ] = None,
    chunk: Annotated[int, typer.Option(metavar="N", help="Rows per transaction.")] = 10_000,
    throttle: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Pause between two chunks.")
    ] = None,
    status: Annotated[bool, flag("--status", help="Only show the progress of backfills.")] = False,
    pause: Annotated[bool, flag("--pause", help="Pause running backfills.")] = False,
    resume: Annotated[bool, flag("--resume", help="Resume paused backfills.")] = False,
    cancel: Annotated[bool, flag("--cancel", help="Cancel running backfills.")] = False,
    watch: Annotated[bool, flag("--watch", help="Run it now, with a progress bar.")] = False,
) -> None:
    """Deliver every row again, in chunks, behind live changes; services or --watch run it."""
    from trunkline.cli import inputs
    from trunkline.core.errors import BadRequest
    from trunkline.tube import backfill_calls

    flags = {"--status": status, "--pause": pause, "--resume": resume, "--cancel": cancel}
    told = [name for name, on in flags.items() if on]
    if len(told) > 1:
        raise BadRequest(f"{' and '.join(told)} are two things.", hint="Choose one.")
    with invocation.session() as session:
        if pause or resume:
            changed = session.run(backfill_calls.pause(tube, pause=pause))
            say(f"{counted(changed, 'backfill')} changed.")
        elif cancel:
            given_up = session.run(backfill_calls.cancel(tube))
            say(f"{counted(given_up, 'backfill')} given up.")
        elif not status:
            wait = None if throttle is None else inputs.duration(throttle, option="--throttle")
            session.run(
                backfill_calls.schedule(
                    tube, relation=relation, order_by=order_by, chunk=chunk, throttle=wait
                )
            )
            if watch:
                _work(session, tube)
        rows = session.run(backfill_calls.status(tube))
    invocation.print(rows, columns=_BACKFILLS, nothing="No backfills.")


def downstream(
    invocation: Invocation,
    tube: SomeTube = None,
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND", help="postgres, redis, opensearch, topic, callable, or none."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="An option of the downstream; ${NAME} is read when it runs."
        ),
    ] = None,
) -> None:
    """Set the downstream of a tube, for trunkline up; without a kind, show it."""
    from trunkline.core.errors import Invalid
    from trunkline.tube import calls
    from trunkline.tube.services import check_options

    options: dict[str, Any] = {}
    for pair in option or ():
        name, separator, value = pair.partition("=")
        if not separator or not name:
            raise Invalid(f'--option takes name=value, got "{pair}".')
        options[name] = _value(value)
    if kind is not None and kind != "none":
        check_options(kind, options)
    with invocation.session() as session:
        if tube is not None and kind is not None:
            session.run(calls.downstream(tube, None if kind == "none" else kind, options))
        rows = [row for row in session.run(calls.downstreams()) if tube in {None, row.tube}]
        if tube is not None and not rows:
            session.run(calls.stats(tube))  # or there is no such tube
    invocation.print(rows, nothing="No downstream." if tube else "No downstreams.")


def worker(
    invocation: Invocation,
    tube: Tube,
    once: Annotated[bool, flag("--once", help="Deliver what is there, then end.")] = False,
) -> None:
    """Deliver one tube to its downstream until interrupted."""
    run_async(_worker(invocation, tube, once=once))


def bench(
    invocation: Invocation,
    quick: Annotated[bool, flag("--quick", help="Fewer runs, under a minute.")] = False,
) -> None:
    """Measure capture and delivery against bare tables, in one run."""
    import json

    from trunkline.tube.bench import run

    with invocation.session() as session:
        typer.echo(json.dumps(run(session.dsn, quick=quick), indent=2))


def _work(session: Session, tube: str) -> None:
    """Do the backfills of a tube chunk by chunk, with a bar on a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from trunkline.tube import backfill_calls

    def active() -> "list[Backfill]":
        return [row for row in session.run(backfill_calls.status(tube)) if row.active]

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(talk=True)) as bars:
        tasks = {row.backfill: bars.add_task(row.relation, total=None) for row in active()}
        while rows := active():
            for row in rows:
                if row.backfill not in tasks:
                    tasks[row.backfill] = bars.add_task(row.relation)
                more = session.run(backfill_calls.step(row.backfill))
                bars.update(
                    tasks[row.backfill],
                    completed=row.keys_done,
                    total=row.keys_estimate,
                    description=row.relation
                    if row.waits_for is None
                    else f"waits: {row.waits_for}",
                )
                if not more:
                    time.sleep(0.05)


async def _worker(invocation: Invocation, tube: str, *, once: bool) -> None:
    import asyncio
    import gc
    import signal

    from trunkline.core import telemetry
    from trunkline.core.errors import NotFound
    from trunkline.core.service import Supervisor
    from trunkline.tube import calls
    from trunkline.tube.services import Backfiller, TubeSequencer

    async with invocation.platform() as platform:
        telemetry.configure(invocation.settings().log_level)
        rows = [row for row in await platform.tube.downstreams() if row.tube == tube]
        if not rows:
            await platform.tube.stats(tube)  # or there is no such tube
            raise NotFound(
                f'tube "{tube}" has no downstream.',
                hint=f"Set one, for example: trunkline tube downstream {tube} postgres",
            )
        works = platform.tube.worker_for(rows[0])
        gc.freeze()  # what is loaded stays: the collector need not look at it again
        if once:
            await platform.db.run(calls.tick())
            say(f"Delivered {counted(await works.run_once(), 'key')}.")
            lanes = len(await platform.tube.stats(tube))
            if works.lanes < lanes:
                of_all = f"{lanes - works.lanes} of its {counted(lanes, 'lane')}"
                say(f"Others work {of_all}: trunkline tube stats")
            return
        stop = asyncio.Event()
        events = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            events.add_signal_handler(number, stop.set)
        services = Supervisor([TubeSequencer(platform.db), Backfiller(platform.db)])
        background = asyncio.create_task(services.run(stop))
        logger = telemetry.get_logger("trunkline.tube")
        logger.info("running", tube=tube, downstream=rows[0].kind)
        await works.run(stop)
        await background
        logger.info("stopped")


def _value(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError:
        return text
