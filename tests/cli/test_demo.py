"""``trunkline demo``."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import Start, answer_of

from trunkline.cli.demo import View
from trunkline.demo.figures import Figures

if TYPE_CHECKING:
    import psycopg


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_it_proves_what_it_claims_and_leaves_nothing_behind(
    dsn: str, start: Start, sql: psycopg.Connection[Any], hasty: dict[str, str]
) -> None:
    sql.execute(
        "select trunkline.config_set('lease.ttl', '1 second'),"
        " trunkline.config_set('broker.webhook_private', 'true')"
    )
    answer = answer_of(start("demo", "--seconds", "1", "--dsn", dsn, **hasty), within=240)
    assert answer.code == 0, answer.err
    assert all(row["holds"] for row in answer.rows)
    found = {row["claim"]: row["found"] for row in answer.rows}
    assert found["written, and there"] > 500
    assert found["partitions taken over"] == 2
    assert found["orders invoiced, exactly once"] > 0
    assert found["orders forwarded into the log"] == found["orders invoiced, exactly once"]
    assert found["orders posted, signed and taken once"] == found["orders invoiced, exactly once"]
    assert "0 answers got lost" not in answer.err
    assert found["open orders on the live page"] > 0
    if "Spark is left out" not in answer.err:
        assert found["orders in the lake"] > 0
        assert "equal as of" in answer.err
    assert found["visits counted in two zones, in the west"] > 0
    assert "kill -9" in answer.err
    left = sql.execute(
        "select (select count(*) from trunkline.log_topic), (select count(*) from trunkline.lease),"
        " (select count(*) from trunkline.broker_webhook),"
        " (select count(*) from pg_namespace where nspname like 'demo%'),"
        " (select count(*) from pg_database where datname like 'demo%')"
    ).fetchone()
    assert left is not None
    assert left[0] == left[2] == left[3] == left[4] == 0


@pytest.mark.parametrize("terminal", [True, False])
async def test_nothing_is_called_synced_before_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    play = SimpleNamespace(figures=Figures(orders=30))
    for keys, said in ((0, False), (1200, True)):
        play.figures.synced = keys
        showing = asyncio.create_task(View().show(play))  # type: ignore[arg-type]
        shown = ""
        while "30" not in shown:
            await asyncio.sleep(0)
            shown += capsys.readouterr().err
        showing.cancel()
        await asyncio.wait({showing})
        shown += capsys.readouterr().err
        assert ("synced" in shown) is said
        assert ("1,200" in shown) is said


def test_it_never_touches_a_database_that_only_the_environment_names(
    dsn: str, start: Start
) -> None:
    nowhere = "/proc/no/such/place"
    answer = answer_of(start("demo", TRUNKLINE_DSN=dsn, TRUNKLINE_HOME=nowhere))
    assert answer.code == 1
    assert nowhere in answer.err
