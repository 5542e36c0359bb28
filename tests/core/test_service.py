"""Services, their loops and their supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from trunkline.core.backoff import Backoff
from trunkline.core.errors import Unavailable
from trunkline.core.service import Loop, Probe, Service, Supervisor
from trunkline.core.telemetry import Metrics
from trunkline.testing import eventually

LONG = 3600.0


class Scripted(Service):
    """Plays a list of answers and errors, then is idle."""

    def __init__(
        self, *script: int | BaseException, name: str = "scripted", interval: float = LONG
    ):
        self.name = name
        self.interval = interval
        self.script = list(script)
        self.calls = 0
        self.called: Probe[int] = Probe()

    async def run_once(self) -> int:
        self.calls += 1
        self.called.send(self.calls)
        step = self.script.pop(0) if self.script else 0
        if isinstance(step, BaseException):
            raise step
        return step


class Busy(Service):
    """A run that takes until it is released, or until it is cancelled."""

    name = "busy"

    def __init__(self) -> None:
        self.begun: Probe[None] = Probe()
        self.release = asyncio.Event()
        self.outcome = "never ran"

    async def run_once(self) -> int:
        self.begun.send(None)
        try:
            self.outcome = "running"
            await self.release.wait()
        except asyncio.CancelledError:
            self.outcome = "cancelled"
            raise
        self.outcome = "finished"
        return 0


def quick() -> Backoff:
    return Backoff(first=0.001, longest=0.002)


async def test_a_probe_gives_the_value_that_was_waited_for() -> None:
    probe: Probe[int] = Probe()
    any_value, large = probe.wait(), probe.wait(lambda value: value > 2)

    for value in (1, 2, 3, 4):
        probe.send(value)

    assert (await any_value, await large) == (1, 3)


async def test_a_probe_keeps_nothing_when_nobody_waits() -> None:
    probe: Probe[int] = Probe()
    probe.send(1)
    done, late, given_up = probe.wait(), probe.wait(lambda _: False, timeout=0), probe.wait()
    given_up.cancel()
    probe.send(2)

    assert await done == 2
    with pytest.raises(TimeoutError, match="silent"):
        await late
    assert probe._waiting == []


async def test_a_loop_goes_on_at_once_while_there_is_work_and_then_rests() -> None:
    service, stop = Scripted(3, 2, 1), asyncio.Event()
    loop = Loop(service, metrics=Metrics())
    rested = loop.ran.wait(lambda done: done == 0)
    task = asyncio.create_task(loop.run(stop))

    await rested
    stop.set()
    await task

    assert service.calls == 4
    assert loop.health()["runs"] == 4


async def test_a_wake_up_ends_the_rest_of_a_loop() -> None:
    service, stop = Scripted(), asyncio.Event()
    task = asyncio.create_task(Loop(service, metrics=Metrics()).run(stop))
    await service.called.wait(lambda calls: calls == 1)

    second = service.called.wait(lambda calls: calls == 2)
    service.wake.set()
    await second

    stop.set()
    await task


async def test_a_wake_up_during_a_run_is_not_lost() -> None:
    class WokenWhileLooking(Scripted):
        async def run_once(self) -> int:
            if self.calls == 0:
                self.wake.set()
            return await super().run_once()

    service, stop = WokenWhileLooking(), asyncio.Event()
    second = service.called.wait(lambda calls: calls == 2)
    task = asyncio.create_task(Loop(service, metrics=Metrics()).run(stop))

    await second
    stop.set()
    await task


async def test_a_service_may_ask_for_a_pause_between_two_runs_that_found_work() -> None:
    service = Scripted(5, 0, 7, interval=0.8)
    service.pause = 0.003
    loop = Loop(service, metrics=Metrics())
    assert [await loop._step() for _ in range(3)] == [0.003, 0.1, 0.003]


async def test_idle_loops_wait_longer_and_longer_up_to_their_interval() -> None:
    service = Scripted(0, 0, 0, 0, 0, 5, 0, interval=0.8)
    loop = Loop(service, metrics=Metrics())

    waits = [await loop._step() for _ in range(7)]

    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 0.8, 0, 0.1])


async def test_a_loop_outlives_what_its_service_raises() -> None:
    metrics = Metrics()
    errors = (ValueError("bad"), Unavailable("away at postgresql://me:pw@host"))
    service, stop = Scripted(*errors, asyncio.CancelledError(), 7), asyncio.Event()
    loop = Loop(service, backoff=quick(), metrics=metrics)
    seven = loop.ran.wait(lambda done: done == 7)
    task = asyncio.create_task(loop.run(stop))

    await seven
    stop.set()
    await task

    health = loop.health()
    assert (health["errors"], health["last_error"]) == (3, "CancelledError: ")
    assert health["last_run_age"] < 10
    assert b'trunkline_service_errors_total{service="scripted"} 3.0' in metrics.render()


async def test_the_last_error_is_told_without_its_password() -> None:
    loop = Loop(Scripted(Unavailable("no answer of postgresql://me:pw@host")), metrics=Metrics())

    await loop._step()

    assert loop.health() == {
        "runs": 0,
        "errors": 1,
        "last_error": "Unavailable: no answer of postgresql://me:***@host",
        "last_run_age": None,
    }


async def test_a_failing_service_is_not_woken_out_of_its_back_off() -> None:
    service, stop = Scripted(ValueError()), asyncio.Event()
    loop = Loop(service, backoff=Backoff(first=LONG, longest=LONG), metrics=Metrics())
    failed = service.called.wait()
    task = asyncio.create_task(loop.run(stop))
    await failed

    service.wake.set()
    for _ in range(20):
        await asyncio.sleep(0)

    assert service.calls == 1
    stop.set()
    await task


async def test_one_failing_service_does_not_disturb_the_others() -> None:
    bad = Scripted(*[ValueError()] * 100, name="bad")
    good = Scripted(1, 1, 1, name="good")
    supervisor = Supervisor([bad, good], metrics=Metrics())
    third = good.called.wait(lambda calls: calls == 3)
    task = asyncio.create_task(supervisor.run())

    await third
    await supervisor.stop()
    await task

    health = supervisor.health()
    assert health["bad"]["errors"] >= 1
    assert (health["good"]["errors"], health["good"]["last_error"]) == (0, None)


async def test_stop_lets_the_run_under_way_finish() -> None:
    service = Busy()
    supervisor = Supervisor([service], metrics=Metrics())
    begun = service.begun.wait()
    task = asyncio.create_task(supervisor.run())
    await begun

    stopping = asyncio.gather(supervisor.stop(), supervisor.stop())
    await asyncio.sleep(0)
    service.release.set()
    await stopping
    await task

    assert service.outcome == "finished"
    await supervisor.stop()


async def test_a_run_that_outlasts_the_grace_is_cancelled() -> None:
    service = Busy()
    supervisor = Supervisor([service], grace=0.01, metrics=Metrics())
    begun = service.begun.wait()
    task = asyncio.create_task(supervisor.run())
    await begun

    await supervisor.stop()
    await task

    assert service.outcome == "cancelled"


async def test_a_supervisor_that_was_stopped_before_it_started_runs_nothing() -> None:
    service = Scripted(1)
    supervisor = Supervisor([service], metrics=Metrics())

    await supervisor.stop()
    await supervisor.run()

    assert service.calls == 0


async def test_an_event_of_the_caller_stops_a_supervisor() -> None:
    stop = asyncio.Event()
    stop.set()

    await Supervisor([Scripted()], metrics=Metrics()).run(stop)
    await Supervisor([], metrics=Metrics()).run(stop)


async def test_cancelling_a_supervisor_cancels_its_services() -> None:
    service = Busy()
    begun = service.begun.wait()
    task = asyncio.create_task(Supervisor([service], metrics=Metrics()).run())
    await begun

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.outcome == "cancelled"


async def test_services_need_names_of_their_own_and_a_supervisor_runs_once() -> None:
    with pytest.raises(ValueError, match="same name"):
        Supervisor([Scripted(), Scripted()])
    supervisor = Supervisor([], metrics=Metrics())
    await supervisor.stop()
    await supervisor.run()
    with pytest.raises(RuntimeError, match="once"):
        await supervisor.run()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_runs_finish_and_the_handlers_are_put_back(
    number: signal.Signals,
) -> None:
    service = Busy()
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    supervisor = Supervisor([service], metrics=Metrics())
    begun = service.begun.wait()
    task = asyncio.create_task(supervisor.run())
    await begun

    os.kill(os.getpid(), number)
    await eventually(lambda: supervisor._stopping.is_set())
    service.release.set()
    await task

    assert service.outcome == "finished"
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


async def test_a_second_signal_cuts_runs_short() -> None:
    service = Busy()
    supervisor = Supervisor([service], grace=LONG, metrics=Metrics())
    begun = service.begun.wait()
    task = asyncio.create_task(supervisor.run())
    await begun

    os.kill(os.getpid(), signal.SIGTERM)
    await eventually(lambda: supervisor._stopping.is_set())
    assert service.outcome == "running"
    os.kill(os.getpid(), signal.SIGINT)
    await task

    assert service.outcome == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_who_heard_signals_before_hears_them_too(number: signal.Signals) -> None:
    heard: list[int] = []
    before = signal.signal(number, lambda number, _frame: heard.append(number))
    try:
        service = Busy()
        begun = service.begun.wait()
        task = asyncio.create_task(Supervisor([service], metrics=Metrics()).run())
        await begun
        os.kill(os.getpid(), number)
        service.release.set()
        await task
    finally:
        signal.signal(number, before)
    assert heard == [number]


async def test_a_handler_that_would_end_the_process_does_not_cut_runs_short() -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        service = Busy()
        begun = service.begun.wait()
        supervisor = Supervisor([service], metrics=Metrics())
        task = asyncio.create_task(supervisor.run())
        await begun
        os.kill(os.getpid(), signal.SIGTERM)
        await eventually(lambda: supervisor._stopping.is_set())
        service.release.set()
        await task
    finally:
        signal.signal(signal.SIGTERM, before)
    assert service.outcome == "finished"


def test_an_idle_process_hears_a_signal_while_it_sleeps() -> None:
    program = """
import asyncio
from trunkline.core.service import Service, Supervisor

class Idle(Service):
    name, interval = "idle", 3600.0
    async def run_once(self):
        print("running", flush=True)
        return 0

asyncio.run(Supervisor([Idle()]).run())
print("stopped", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopped\n"
        assert process.wait(timeout=10) == 0
