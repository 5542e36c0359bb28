"""A database of any earlier stage becomes the present one, under those who use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import ask, column

from trunkline.core import migrate

if TYPE_CHECKING:
    from tests.fixtures.programs import Programs


def stages() -> list[int]:
    """Where a release may have ended: after a capability, or before a numbered file of one."""
    steps = migrate.steps()
    numbered = [number for number, step in enumerate(steps) if not step.repeatable]
    return [number for number in numbered if steps[number].file.startswith("001")][1:]


@pytest.mark.parametrize("stage", stages())
def test_an_upgrade_from_any_stage_makes_the_schema_of_a_fresh_install(
    dsn: str, bare_dsn: str, programs: Programs, monkeypatch: pytest.MonkeyPatch, stage: int
) -> None:
    steps = migrate.steps()
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "steps", lambda: steps[:stage])
        migrate.install(bare_dsn)
        assert migrate.plan(bare_dsn).current
    assert [step.file for step in migrate.plan(bare_dsn).pending] == [
        step.file for step in steps[stage:]
    ]
    migrate.install(bare_dsn)
    assert migrate.plan(bare_dsn).current
    assert programs.dump(bare_dsn, "--schema-only") == programs.dump(dsn, "--schema-only")


def test_an_upgrade_keeps_what_is_stored_and_who_is_connected(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every function is replaced under a session that has plans of the old ones."""
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as session:
        session.execute("select trunkline.log_create('orders')")
        session.execute("select trunkline.config_set('lease.ttl', '2 days')")
        for _ in range(6):
            append(session)
        changed = [
            migrate.Step(step.capability, step.file, step.text + ("\n" if step.repeatable else ""))
            for step in migrate.steps()
        ]
        monkeypatch.setattr(migrate, "steps", lambda: changed)
        assert len(migrate.plan(dsn).pending) == sum(step.repeatable for step in changed)
        migrate.install(dsn)
        assert migrate.plan(dsn).current
        append(session)
        read = "select log_offset from trunkline.log_read('orders', 0, 1)"
        assert column(session, read) == list(range(1, 8))
        assert ask(session, "select trunkline.config_get('lease.ttl')") == "2 days"


def append(session: psycopg.Connection[Any]) -> None:
    session.execute("select trunkline.log_append('orders', 0, array['x'::bytea])")


def test_the_script_of_an_upgrade_is_what_would_be_run(dsn: str, bare_dsn: str) -> None:
    assert migrate.pending_script(migrate.plan(dsn)) == ""
    planned = migrate.pending_script(migrate.plan(bare_dsn))
    for step in migrate.steps():
        assert step.text.strip() in planned


@pytest.mark.parametrize("number", [1, 20_000])
def test_versions_that_downstreams_have_from_before_there_were_generations_go_on(
    dsn: str, number: int
) -> None:
    version = "select generation from trunkline.tube_version()"
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("select trunkline.incarnation()")
        session.execute("update trunkline.incarnation set incarnation = %s", [number])
        session.execute("alter table trunkline.incarnation drop column generation")
        session.execute(
            "delete from trunkline.migration where (capability, file) in ("
            "('core', '008_post_first_life.sql'), ('core', '009_generation.sql'))"
        )
        migrate.install(dsn)
        assert ask(session, version) == number
        assert ask(session, "select incarnation from trunkline.tube_version()") == number
        session.execute("update trunkline.incarnation set timeline = timeline + 1")
        assert number < ask(session, version) < 2**15


def test_live_subscriptions_that_stay_outlive_an_upgrade_unless_they_make_no_sense_any_more(
    dsn: str,
) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute("create table things (id int primary key, size int)")
        session.execute("select trunkline.live_watch('things')")
        kept, gone = (
            ask(
                session,
                "select subscription from trunkline.live_subscribe('things', %s)",
                [f'{{"{name}": {{"gt": 1}}}}'],
            )
            for name in ("id", "size")
        )
        session.execute("alter table things drop size")
        session.execute("update trunkline.live_shape set expression = 'false /* ::mood */'")
        session.execute("delete from trunkline.migration where file = '004_post_live_shapes.sql'")
        migrate.install(dsn)
        session.execute("insert into things values (1), (2)")
        session.execute("select trunkline.broker_tick()")
        read = "select event_id from trunkline.live_read(0, subscription => %s)"
        assert column(session, read, [kept]) == [2, None]
        assert column(session, read, [gone]) == [None]
