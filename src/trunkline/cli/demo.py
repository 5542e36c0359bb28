"""``trunkline demo``: see it work, end to end."""

import asyncio
import signal
import sys
from collections import deque
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.invocation import Invocation, command, flag, run_async
from trunkline.cli.output import console, new_table, say
from trunkline.core.words import counted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from trunkline.demo.figures import Figures, Proof
    from trunkline.demo.scenario import Demo
    from trunkline.platform import Platform

_ONCE = 20_000  # messages
_PER_SECOND = 3_000
_SHARE = 0.6  # of the time goes into writing; the rest is for starting and for catching up
_OF_ITS_OWN = {  # settings of the demo's own server
    "lease.ttl": "2 seconds",  # so soon a killed member is noticed
    "broker.webhook_private": "true",  # the receiver of webhooks is on this machine
}


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="trunkline demo --once", reads=True)(demo)


def demo(
    invocation: Invocation,
    once: Annotated[bool, flag("--once", help=f"Write {_ONCE} messages, however long.")] = False,
    seconds: Annotated[
        float, typer.Option(metavar="N", min=1, help="About how long it takes.")
    ] = 15.0,
) -> None:
    """Run a demo that checks itself, in about 30 s; it skips parts that need missing packages."""
    from trunkline.demo.figures import Amount

    amount = Amount(_PER_SECOND, seconds * _SHARE, _ONCE if once else None)
    proofs = run_async(_run(invocation, amount))
    invocation.print(
        {
            "claim": proof.claim,
            "expected": proof.expected,
            "found": proof.found,
            "holds": proof.holds,
        }
        for proof in proofs
    )
    if not all(proof.holds for proof in proofs):
        raise typer.Exit(1)


async def _run(invocation: Invocation, amount: Any) -> "list[Proof]":
    from trunkline.core import telemetry
    from trunkline.core.calls import Call, scalar
    from trunkline.demo.scenario import Demo

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)
    async with _stage(invocation) as platform:
        telemetry.configure("error")  # what else there is to say, the demo says
        if _nothing_named(invocation):
            for name, value in _OF_ITS_OWN.items():
                await platform.db.run(Call("config_set", {"name": name, "value": value}, scalar))
        view = View()
        play = Demo(platform, amount, say=view.say)
        showing = asyncio.create_task(view.show(play))
        try:
            return await play.run(stop)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        finally:
            showing.cancel()
            await asyncio.wait({showing})


def _nothing_named(invocation: Invocation) -> bool:
    """Whether the demo has a server of its own."""
    return invocation.dsn is None and invocation.instance is None


@asynccontextmanager
async def _stage(invocation: Invocation) -> "AsyncIterator[Platform]":
    """The database that was named, or a server of the demo's own: never what the environment names.

    Nothing is kept on the demo's own server, so a schema of another version is simply replaced.
    """
    from trunkline.core import migrate
    from trunkline.core.errors import SchemaMismatch

    with ExitStack() as held:
        if _nothing_named(invocation):
            invocation = replace(invocation, instance="demo")
            target = held.enter_context(invocation.target())
            try:
                migrate.install(target.dsn)
            except SchemaMismatch:
                migrate.uninstall(target.dsn)
        async with invocation.platform() as platform:
            yield platform


class View:
    """Shows what happens: a picture that changes on a terminal, lines elsewhere."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._began = asyncio.get_running_loop().time()
        self._events: deque[str] = deque(maxlen=6)
        self._seen: deque[tuple[float, dict[str, int]]] = deque(maxlen=8 if self._terminal else 3)

    def say(self, text: str) -> None:
        """Something happened."""
        line = f"{self._seconds():5.1f} s  {text}"
        self._events.append(line)
        if not self._terminal:
            say(line)

    async def show(self, play: "Demo") -> None:
        """Show the figures until cancelled."""
        if not self._terminal:
            said = ""
            while True:
                await asyncio.sleep(1)
                if (line := self._line(play.figures)) != said:
                    self.say(line)
                said = line
        from rich.live import Live

        with Live(console=console(talk=True), auto_refresh=False) as live:
            try:
                while True:
                    live.update(self._picture(play.figures), refresh=True)
                    await asyncio.sleep(0.25)
            finally:
                live.update(self._picture(play.figures), refresh=True)

    def _seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def _line(self, figures: "Figures") -> str:
        rate = self._rates(figures)["written"]
        views = [
            f"{figures.written:,} written ({rate:,.0f}/s)",
            *(f"{group} {lag} behind" for group, lag in sorted(figures.lag.items())),
            counted(figures.dead, "dead letter"),
        ]
        orders = [
            f"{figures.orders:,} changes of orders",
            f"{figures.invoiced:,} invoiced",
            f"{figures.forwarded:,} forwarded",
            *([f"{figures.shipped:,} posted"] if figures.shipped else []),
            f"{figures.shown:,} shown",
            *([f"{figures.synced:,} synced"] if figures.synced else []),
        ]
        zones = [f"{figures.visits:,} visits in two zones"] if figures.visits else []
        return "; ".join(", ".join(part) for part in (views, orders, zones) if part)

    def _picture(self, figures: "Figures") -> Any:
        from rich.console import Group
        from rich.text import Text

        rates = self._rates(figures)
        table = new_table()
        table.add_column("who", min_width=14)
        for name in ("messages", "per second", "behind"):
            table.add_column(name, justify="right", min_width=10)
        table.add_column("")
        table.add_row("producers", f"{figures.written:,}", f"{rates['written']:,.0f}", "", "")
        remarks = {
            "counters": f"members: {figures.members}, counting exactly once",
            "mailers": f"failures: {figures.failures}, dead letters: {figures.dead}",
        }
        for group, remark in remarks.items():
            done, lag = figures.done.get(group, 0), figures.lag.get(group, 0)
            rate = f"{rates[group]:,.0f}"
            table.add_row(f"group {group}", f"{done:,}", rate, f"{lag:,}", remark)
        synced = "nothing is in the lake yet" if figures.lake else "without Spark"
        if figures.synced:
            synced = f"synced into the lake: {figures.synced:,}"
        table.add_row("orders", f"{figures.orders:,}", f"{rates['orders']:,.0f}", "", synced)
        events = f"{figures.forwarded:,} forwarded into the log"
        table.add_row("invoices", f"{figures.invoiced:,}", "", "", events)
        if figures.shipped:
            lost = f"verified; {counted(figures.unanswered, 'answer')} lost, and known again"
            table.add_row("webhook", f"{figures.shipped:,}", "", "", lost)
        cuts = f"cut off {figures.cuts:,} times, and gone on"
        table.add_row("live page", f"{figures.shown:,}", "", "", cuts)
        if figures.visits:
            table.add_row("two zones", f"{figures.visits:,}", "", "", "visits and carts, in both")
        return Group(table, Text(""), *(Text(event) for event in self._events), Text(""))

    def _rates(self, figures: "Figures") -> dict[str, float]:
        now = {"written": figures.written, "orders": figures.orders, **figures.done}
        self._seen.append((self._seconds(), now))
        began, before = self._seen[0]
        elapsed = max(self._seconds() - began, 0.1)
        return {
            name: (now.get(name, 0) - before.get(name, 0)) / elapsed
            for name in ("written", "orders", "counters", "mailers")
        }
