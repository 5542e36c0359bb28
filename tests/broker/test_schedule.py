"""Who does the background work: the services, or pg_cron."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.broker.groups import read, subscribe
from tests.broker.steps import publish
from tests.fixtures.asking import ask, call, column, refused
from tests.fixtures.postgres import temporary_home

from trunkline import connect
from trunkline.broker.schedule import Gate
from trunkline.broker.services import BrokerSequencer
from trunkline.cli.doctor import check_schedule
from trunkline.core import migrate
from trunkline.core.embedded import Server
from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session

CRON = sorted(Path("/usr/lib/postgresql").glob("*/lib/pg_cron.so"))


def test_everything_that_waits_is_done_by_one_call(session: Session) -> None:
    call(session, "log_create", topic="order", partitions=1)
    subscribe(session)
    publish(session, "order", 1)
    publish(session, "order", 2, deliver_at=ask(session, "select now() + interval '1 ms'"))

    session.execute("call trunkline.broker_work()")

    assert [one.payload for one in read(session)] == [1, 2]
    assert ask(session, "select count(*) from trunkline.log_read('order', 0, 1, 10)") == 2


def test_a_topic_that_cannot_be_forwarded_holds_up_nobody(session: Session) -> None:
    for topic in ("broken", "order"):
        call(session, "log_create", topic=topic)
        publish(session, topic)
    broken = ask(
        session,
        "select p.segment_id from trunkline.log_partition p join trunkline.log_topic t"
        " using (topic_id) where t.topic = 'broken'",
    )
    session.execute(f"alter table trunkline.log_segment_{broken} rename to log_segment_away")
    try:
        session.execute("call trunkline.broker_work()")
    finally:
        session.execute(f"alter table trunkline.log_segment_away rename to log_segment_{broken}")

    assert ask(session, "select count(*) from trunkline.log_read('order', 0, 1, 10)") == 1


def test_it_goes_on_only_while_pg_cron_is_chosen(session: Session) -> None:
    subscribe(session)
    session.execute("set statement_timeout = '5s'")

    session.execute("call trunkline.broker_work('1 hour')")
    session.execute("call trunkline.broker_work('178000000 years')")


def test_pg_cron_is_refused_where_there_is_none(session: Session) -> None:
    with refused("TL422") as caught:
        call(session, "broker_schedule", by_whom="pg_cron")
    assert "create extension" in (caught.value.diag.message_hint or "")
    with refused("TL422"):
        call(session, "broker_schedule", by_whom="somebody")
    with refused("TL422"):
        call(session, "broker_schedule", by_whom="services", every=timedelta(0))
    call(session, "broker_schedule", by_whom="services")
    assert [row[0] for row in call(session, "broker_scheduled")] == ["services"]


async def test_services_stand_aside_while_pg_cron_does_the_work(
    session: Session, clean_dsn: str
) -> None:
    publish(session, "order")
    session.execute("update trunkline.config set value = 'pg_cron' where name = 'broker.schedule'")
    async with connect(clean_dsn) as platform:
        assert not await Gate(platform.db).is_open()
        assert await BrokerSequencer(platform.db).run_once() == 0

        call(session, "broker_schedule", by_whom="services")

        assert await BrokerSequencer(platform.db).run_once() == 1


PG_CRON = """
set allow_system_table_mods = on;
insert into pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
  select max(oid)::bigint + 1, 'pg_cron', 10, 'pg_catalog'::regnamespace, false, '1.6'
    from pg_extension;
reset allow_system_table_mods;
create schema cron;
create table cron.job (jobid bigint generated always as identity, jobname text unique,
  schedule text, command text, database text default current_database(),
  active boolean default true);
create table cron.job_run_details (runid bigint generated always as identity, jobid bigint,
  status text, return_message text, start_time timestamptz);
create function cron.schedule(text, text, text) returns bigint language sql as $$
  insert into cron.job (jobname, schedule, command) values ($1, $2, $3)
    on conflict (jobname) do update set schedule = excluded.schedule, command = excluded.command
  returning jobid $$;
create function cron.unschedule(bigint) returns boolean language plpgsql as $$
begin
  delete from cron.job where jobid = $1;
  if not found then
    raise 'could not find valid entry for job';
  end if;
  return true;
end $$;
"""
"""What pg_cron shows of itself: its jobs and how they went. It runs none."""

JOBS = "select jobname from cron.job order by 1"


@pytest.fixture
def with_cron(dsn: str) -> Iterator[Session]:
    """A session in a database with the tables of pg_cron."""
    with psycopg.connect(dsn, autocommit=True) as opened:
        if ask(opened, "show is_superuser") == "off":
            pytest.skip("only a superuser can pretend that there is an extension")
        opened.execute(PG_CRON)
        yield opened


def test_jobs_come_with_pg_cron_and_go_with_the_services(with_cron: Session) -> None:
    """W36: to remove jobs that are not there is an error of pg_cron."""
    for every in ("50 ms", "20 ms"):
        call(with_cron, "broker_schedule", by_whom="pg_cron", every=every)
        assert column(with_cron, JOBS) == ["trunkline: broker", "trunkline: upkeep"]
        rows = call(with_cron, "broker_scheduled")
        assert [(row[0], row[1]) for row in rows] == [("pg_cron", parsed(with_cron, every))] * 2
    for _ in range(2):
        call(with_cron, "broker_schedule", by_whom="services")
        assert column(with_cron, JOBS) == []
    call(with_cron, "broker_schedule", by_whom="pg_cron")
    assert len(column(with_cron, JOBS)) == 2


def test_jobs_of_others_stay(with_cron: Session) -> None:
    with_cron.execute("select cron.schedule('mine', '* * * * *', 'select 1')")
    call(with_cron, "broker_schedule", by_whom="pg_cron")
    call(with_cron, "broker_schedule", by_whom="services")
    assert column(with_cron, JOBS) == ["mine"]


def test_the_doctor_tells_of_a_job_that_does_not_run_or_fails(with_cron: Session) -> None:
    """W36: with a dead cron worker the broker would stand still in silence."""
    call(with_cron, "broker_schedule", by_whom="pg_cron")
    assert ["last begun never" in one for one in found(with_cron)] == [True, True]
    with_cron.execute(
        "insert into cron.job_run_details (jobid, status, return_message, start_time)"
        " select jobid, 'succeeded', '', now() from cron.job"
    )
    assert found(with_cron) == []
    with_cron.execute("update cron.job_run_details set start_time = now() - interval '1 hour'")
    assert ["does not run" in one for one in found(with_cron)] == [True, True]
    with_cron.execute(
        "update cron.job_run_details"
        " set start_time = now(), status = 'failed', return_message = 'out of memory'"
    )
    assert ["out of memory" in one for one in found(with_cron)] == [True, True]


def test_another_interval_counts_at_once(with_cron: Session, dsn: str) -> None:
    call(with_cron, "broker_schedule", by_whom="pg_cron", every="1 hour")
    subscribe(with_cron)
    with psycopg.connect(dsn, autocommit=True) as working, ThreadPoolExecutor(1) as threads:
        pid = working.info.backend_pid
        job = threads.submit(working.execute, "call trunkline.broker_work('2 hours')")
        try:
            asleep = "select wait_event from pg_stat_activity where pid = %s"
            wait_until(lambda: ask(with_cron, asleep, [pid]) == "PgSleep")
            publish(with_cron, "order", 1)
            call(with_cron, "broker_schedule", by_whom="pg_cron", every="10 ms")
            wait_until(lambda: [one.payload for one in read(with_cron)] == [1], 5)
            call(with_cron, "broker_schedule", by_whom="services")
            job.result(5)
        finally:
            ask(with_cron, "select pg_cancel_backend(%s)", [pid])


def parsed(session: Session, interval: str) -> timedelta:
    value: timedelta = ask(session, "select %s::interval", [interval])
    return value


@pytest.fixture
def crony() -> Iterator[str]:
    """The DSN of a server of Debian's with pg_cron."""
    if not CRON:
        pytest.skip("there is no pg_cron on this machine: apt install postgresql-15-cron")
    settings = {
        "shared_preload_libraries": "pg_cron",
        "cron.database_name": "postgres",
        "cron.use_background_workers": "on",
    }
    with temporary_home() as home:
        server = Server(home, "cron", bin_dir=CRON[0].parents[1] / "bin", settings=settings)
        server.start()
        migrate.install(server.dsn("postgres"))
        yield server.dsn("postgres")


@pytest.mark.soak  # pg_cron begins with the next minute
@pytest.mark.timeout(240)
def test_pg_cron_does_the_work_and_its_removal_is_clean(crony: str) -> None:
    with psycopg.connect(crony, autocommit=True) as session:
        session.execute("create extension pg_cron")
        subscribe(session)

        call(session, "broker_schedule", by_whom="pg_cron", every=timedelta(milliseconds=50))
        call(session, "broker_schedule", by_whom="pg_cron", every=timedelta(milliseconds=20))

        assert column(session, JOBS) == ["trunkline: broker", "trunkline: upkeep"]
        publish(session, "order", "by cron")
        wait_until(lambda: [one.payload for one in read(session)] == ["by cron"], 90)
        publish(session, "order", "again")
        wait_until(lambda: len(read(session)) == 2, 5)
        assert list(found(session)) == []
        session.execute("update cron.job set active = false")
        assert ["does not run" in one for one in found(session)] == [True, True]

        call(session, "broker_schedule", by_whom="services")
        call(session, "broker_schedule", by_whom="services")

        assert column(session, JOBS) == []


def found(session: psycopg.Connection[Any]) -> list[str]:
    """What the doctor says of the schedule."""
    return [finding.found for finding in check_schedule(session)]
