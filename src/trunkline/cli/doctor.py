"""``trunkline doctor``: what is stuck, who blocks it, and what to do."""

from collections.abc import Sized
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trunkline.cli.invocation import Invocation, command
from trunkline.cli.output import Format, console, new_table
from trunkline.core.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from trunkline.core.doctor import Finding

_CRON_WITHIN = timedelta(minutes=3)
_DELIVERED_WITHIN = timedelta(minutes=10)
_LOST_WITHIN = timedelta(days=7)
_MATCHED_WITHIN = timedelta(minutes=1)
_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def add_to(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, example="trunkline doctor --older-than 10s", reads=True)(doctor)


def doctor(
    invocation: Invocation,
    older_than: Annotated[
        str,
        typer.Option(metavar="DURATION", help="Report transactions that are open for longer."),
    ] = "1m",
    far_behind: Annotated[
        int,
        typer.Option(metavar="MESSAGES", min=1, help="Report groups and peers that lag by more."),
    ] = 100_000,
) -> None:
    """Check the installation and say what to do; exit code 1 if a check fails."""
    from functools import partial

    from trunkline.cli import inputs
    from trunkline.cli.doctor_kv import check_kv, check_whole
    from trunkline.core import migrate
    from trunkline.core.doctor import State, examine

    age = inputs.duration(older_than, option="--older-than")
    with invocation.target() as target:
        if target.server is not None:
            migrate.install(target.dsn)
        findings = examine(
            target.dsn,
            older_than=age,
            further={
                "groups": partial(check_groups, far_behind=far_behind),
                "dead": check_dead,
                "archive": check_archive,
                "broker": check_broker,
                "tubes": check_tubes,
                "kv": partial(check_kv, far_behind=far_behind),
                "kv copy": check_whole,
                "schedule": check_schedule,
            },
        )
    if invocation.format is Format.TABLE:
        _print_table(findings)
    else:
        invocation.print(findings)
    if any(finding.state is State.FAIL for finding in findings):
        raise typer.Exit(1)


def check_groups(connection: "psycopg.Connection[Any]", *, far_behind: int) -> "Iterator[Finding]":
    """Do groups keep up, and is what they have not read still there?"""
    from trunkline.core.doctor import Finding, State
    from trunkline.core.execution import execute
    from trunkline.log import dead_calls, group_calls

    # dead letters are told by themselves, and a seek would forget which are settled
    groups = [
        group
        for group in execute(connection, group_calls.lag())
        if group.group_name != dead_calls.GROUP
    ]
    troubled = set()
    for position in execute(connection, group_calls.groups()):
        if position.lost and position.group_name != dead_calls.GROUP:
            wanted = position.up_to + 1
            troubled.add((position.topic, position.group_name))
            yield Finding(
                "groups",
                State.FAIL,
                f"{position.group_name} on {position.topic}/{position.partition} wants"
                f" {wanted}, but retention left {wanted + position.lost} as the first",
                f"trunkline log seek {position.topic} --group {position.group_name} --to earliest",
            )
    for group in groups:
        if group.lag > far_behind and (group.topic, group.group_name) not in troubled:
            troubled.add((group.topic, group.group_name))
            partitions = counted(group.partitions, "partition has", "partitions have")
            owners = f"{group.owned} of {partitions} an owner"
            yield Finding(
                "groups",
                State.WARN,
                f"{group.group_name} is {counted(group.lag, 'message')} behind on"
                f" {group.topic}; {owners}",
                "Start more consumers, or move it:"
                f" trunkline log seek {group.topic} --group {group.group_name} --to latest",
            )
    if not troubled:
        yield Finding("groups", State.OK, f"{_groups(groups)}, none far behind")


def check_archive(connection: "psycopg.Connection[Any]") -> "Iterator[Finding]":
    """Does anybody archive the topics that wait for it?"""
    from trunkline.core.doctor import Finding, State
    from trunkline.core.execution import execute
    from trunkline.log import calls

    late = datetime.now(UTC) - timedelta(days=2)
    waiting = [part for part in execute(connection, calls.archivable()) if part.last_at < late]
    for topic in dict.fromkeys(part.topic for part in waiting):
        ours = [part for part in waiting if part.topic == topic]
        yield Finding(
            "archive",
            State.WARN,
            f"{counted(len(ours), 'segment')} of {topic} {'waits' if len(ours) == 1 else 'wait'}"
            " to be archived since"
            f" {min(part.last_at for part in ours):%Y-%m-%d %H:%M}",
            f"trunkline spark archive {topic} --location ...",
        )


def check_dead(connection: "psycopg.Connection[Any]") -> "Iterator[Finding]":
    """Do dead letters wait for somebody?"""
    from trunkline.core.doctor import Finding, State
    from trunkline.core.execution import execute
    from trunkline.log import dead_calls

    for topic, letters in execute(connection, dead_calls.waiting()).items():
        yield Finding(
            "dead letters",
            State.WARN,
            f"{letters} in {topic}",
            f"Look: trunkline log dead list {topic.removesuffix('.dead')}",
        )


def check_broker(connection: "psycopg.Connection[Any]") -> "Iterator[Finding]":
    """Are events matched, and does what failed wait for somebody?"""
    from trunkline.broker import calls
    from trunkline.core.doctor import Finding, State, duration_text
    from trunkline.core.execution import execute

    behind = execute(connection, calls.unmatched())
    if behind.events and behind.age > _MATCHED_WITHIN:
        yield Finding(
            "broker",
            State.FAIL,
            f"{counted(behind.events, 'event waits', 'events wait')} to be matched since"
            f" {duration_text(behind.age)}",
            "Keep `trunkline up` running, or an app.",
        )
    for condition in execute(connection, calls.conditions()):
        if condition.quarantined:
            yield Finding(
                "broker",
                State.WARN,
                f"{counted(condition.quarantined, 'subscription is', 'subscriptions are')}"
                f" in quarantine: {condition.condition}",
                "See why: trunkline broker subscriptions; then: trunkline broker resume NUMBER",
            )
    unforwarded = execute(connection, calls.unforwarded())
    for topic in dict.fromkeys(event.topic for event in unforwarded):
        ours = [event for event in unforwarded if event.topic == topic]
        yield Finding(
            "broker",
            State.WARN,
            f"{counted(len(ours), f'event of {topic} is', f'events of {topic} are')}"
            " too large for the log and set aside",
            f"Look: trunkline broker unforwarded {topic}",
        )
    groups = execute(connection, calls.groups())
    for group in groups:
        if group.dead:
            yield Finding(
                "broker",
                State.WARN,
                f"{counted(group.dead, 'dead letter')} in group {group.group_name}",
                f"Look: trunkline broker dead list --group {group.group_name}",
            )
        if group.lost_at is not None and _age(group.lost_at) < _LOST_WITHIN:
            yield Finding(
                "broker",
                State.WARN,
                f"group {group.group_name} lost deliveries {group.lost_first} to {group.lost_last}"
                f" on {group.lost_at:%Y-%m-%d %H:%M}: they left before it had read them,"
                f" {group.lost} in all",
                "Keep workers running that keep up, or raise the limit: trunkline db config set"
                " broker.hold ... (or broker.hold_bytes); if it is not needed: trunkline broker"
                f" group-delete {group.group_name}",
            )
        if group.lasting and group.idle_since is not None and group.waiting:
            yield Finding(
                "broker",
                State.WARN,
                f"group {group.group_name} is unread since {group.idle_since:%Y-%m-%d %H:%M},"
                f" {counted(group.waiting, 'delivery waits', 'deliveries wait')}",
                f"Start a worker, or: trunkline broker group-delete {group.group_name}",
            )
    yield from _held(connection)
    yield from _abandoned_retries(connection)
    if not behind.events:
        yield Finding("broker", State.OK, f"{_groups(groups)}, every event is matched")


def _held(connection: "psycopg.Connection[Any]") -> "Iterator[Finding]":
    """Do unread events fill the disk?"""
    from trunkline.broker.held import held
    from trunkline.core.doctor import Finding, State
    from trunkline.core.execution import execute

    found = execute(connection, held())
    if found.warning is not None:
        yield Finding(
            "broker",
            State.FAIL if found.is_nearly_full else State.WARN,
            found.warning,
            "Start its workers, or: trunkline broker group-delete"
            f" {found.group_name or 'GROUP'}."
            + (" At the limit its oldest events leave unread." if found.most else ""),
        )


def _abandoned_retries(connection: "psycopg.Connection[Any]") -> "Iterator[Finding]":
    """Does what failed wait for a handler that nobody runs?"""
    from trunkline.broker import calls
    from trunkline.core.doctor import Finding, State
    from trunkline.core.execution import execute

    waiting: dict[tuple[str, str], int] = {}
    for lane in execute(connection, calls.lag()):
        if lane.process_name is None and (failed := lane.retrying + lane.parked):
            place = (lane.group_name, lane.handler)
            waiting[place] = waiting.get(place, 0) + failed
    for (group, handler), failed in waiting.items():
        yield Finding(
            "broker",
            State.WARN,
            f"{counted(failed, 'event waits', 'events wait')} to be tried again by handler"
            f' "{handler}" of group {group}, and no worker runs it',
            f"Start a worker, or: trunkline broker handler-delete {group} {handler or repr('')}",
        )


def check_tubes(connection: "psycopg.Connection[Any]") -> "Iterator[Finding]":
    """Do the touches of tubes get anywhere, and does what was set aside wait for somebody?"""
    from itertools import groupby

    from trunkline.core.doctor import Finding, State, duration_text
    from trunkline.core.execution import execute
    from trunkline.tube import calls

    stats = execute(connection, calls.stats())
    tubes = {tube: list(lanes) for tube, lanes in groupby(stats, key=lambda lane: lane.tube)}
    troubled = False
    for tube, lanes in tubes.items():
        if parked := sum(lane.parked for lane in lanes):
            troubled = True
            yield Finding(
                "tubes",
                State.WARN,
                f"{counted(parked, 'key')} of {tube} kept failing and"
                f" {'was' if parked == 1 else 'were'} set aside",
                f"See why: trunkline tube parked {tube}; once mended, the same with --retry",
            )
        late = [
            age
            for lane in lanes
            if lane.oldest_at is not None and (age := _age(lane.oldest_at)) > _DELIVERED_WITHIN
        ]
        if late:
            troubled = True
            at_work = sum(lane.process is not None for lane in lanes)
            yield Finding(
                "tubes",
                State.WARN,
                f"touches of {tube} wait since {duration_text(max(late))};"
                f" {at_work} of {counted(len(lanes), 'lane has', 'lanes have')} a worker",
                "Keep `trunkline up` running with a downstream set, or a worker, or a sync.",
            )
    if not troubled:
        yield Finding("tubes", State.OK, f"{counted(len(tubes), 'tube')}, nothing waits for long")


def check_schedule(connection: "psycopg.Connection[Any]") -> "Iterator[Finding]":
    """Where pg_cron does the work of the broker: does it?"""
    from trunkline.broker import calls
    from trunkline.core.doctor import Finding, State
    from trunkline.core.execution import execute

    for job in execute(connection, calls.scheduled()):
        if job.by_whom == "pg_cron" and (not job.active or _age(job.began_at) > _CRON_WITHIN):
            began = "never" if job.began_at is None else f"{job.began_at:%Y-%m-%d %H:%M}"
            yield Finding(
                "schedule",
                State.FAIL,
                f'pg_cron does not run the job "{job.job}": last begun {began}',
                "Look at cron.job and the server's log, or: trunkline broker schedule services",
            )
        elif job.status == "failed":
            yield Finding(
                "schedule",
                State.FAIL,
                f'the job "{job.job}" of pg_cron failed: {job.message}',
                "Mend the cause; it is started again within a minute.",
            )


def _age(moment: datetime | None) -> timedelta:
    return timedelta.max if moment is None else datetime.now(UTC) - moment


def _print_table(findings: "list[Finding]") -> None:
    from rich.text import Text

    table = new_table()
    for name in ("check", "state", "found"):
        table.add_column(name, overflow="fold")
    for finding in findings:
        text = Text(finding.found)
        if finding.remedy:
            text.append(f"\n-> {finding.remedy}", style="italic")
        table.add_row(finding.check, Text(finding.state, style=_STYLES[finding.state]), text)
    console().print(table)


def _groups(found: Sized) -> str:
    return counted(len(found), "group")
