"""``trunkline broker worker`` and ``trunkline broker dead``."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

from tests.cli.conftest import answer_of

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from tests.cli.conftest import Cli, Start

PROGRAM = """
import trunkline

app = trunkline.App()
empty = trunkline.App()


@app.on("orders", group="billing", retry=[])
async def bill(event: trunkline.Event, transaction: object) -> None:
    if event.payload == "bad":
        raise ValueError("out of paper")
    await transaction.execute("insert into bill values (%s)", [event.payload])
"""


def bills(sql: psycopg.Connection[Any]) -> list[str]:
    return [row[0] for row in sql.execute("select name from bill order by 1")]


def test_a_worker_handles_events_until_it_is_told_to_stop_and_dead_letters_are_seen_to(
    cli: Cli, start: Start, dsn: str, sql: psycopg.Connection[Any], tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    sql.execute("create table bill (name text)")
    process = start("broker", "worker", "shop:app", TRUNKLINE_DSN=dsn)
    wait_until(lambda: sql.execute("select from trunkline.broker_handler").rowcount == 1, 30)
    for payload in ('"tea"', '"bad"', '"milk"'):
        sql.execute("select trunkline.broker_publish('orders', %s, 'k' || %s)", [payload, payload])
    wait_until(lambda: bills(sql) == ["milk", "tea"])
    wait_until(lambda: len(cli("broker", "dead", "list", "--group", "billing").rows) == 1)
    process.send_signal(signal.SIGTERM)
    answer = answer_of(process)
    assert answer.code == 0, answer.err
    assert "Traceback" not in answer.err
    said = [json.loads(line) for line in answer.err.splitlines()]
    assert (said[0]["event"], said[0]["handlers"]) == ("running", ["billing: bill"])
    assert said[-1]["event"] == "stopped"

    [letter] = cli("broker", "dead", "list").rows
    assert (letter["handler"], letter["attempts"], letter["behind"]) == ("bill", 1, 0)
    assert letter["error"] == "ValueError: out of paper"
    number = str(letter["retry"])
    shown = cli("broker", "dead", "show", number).rows
    assert shown["payload"] == "bad"
    assert shown["errors"][0]["attempt"] == 1
    assert "1 dead letter is tried again" in cli("broker", "dead", "retry", number).err
    assert cli("broker", "dead", "discard", number, "--yes").code == 3
    assert cli("broker", "dead", "show", number).code == 3


def test_all_dead_letters_of_a_handler_are_discarded(
    cli: Cli, sql: psycopg.Connection[Any]
) -> None:
    sql.execute("select trunkline.broker_subscribe('g', handler => 'h')")
    for number in range(3):
        sql.execute(
            "insert into trunkline.broker_retry (group_id, handler, lane, delivery, status,"
            " attempts, errors, event_id, event_position, topic, payload, at, subscriptions)"
            " select group_id, 'h', 0, %s, 'dead', 1, '[]', 1, 1, 't', '1', now(), '{}'"
            " from trunkline.broker_group",
            [number],
        )
    assert len(cli("broker", "dead", "list", "--handler", "h").rows) == 3
    [told] = [one for one in cli("doctor").rows if "3 dead letters" in one["found"]]
    look = told["remedy"].removeprefix("Look: trunkline ")
    assert len(cli(*look.split()).rows) == 3
    done = cli("broker", "dead", "discard", "--group", "g", "--handler", "h", "--yes")
    assert "3 dead letters are discarded" in done.err
    assert cli("broker", "dead", "list").rows == []
    assert cli("broker", "handler-delete", "g", "h", "--yes").code == 0
    assert cli("broker", "handler-delete", "g", "h", "--yes").code == 3


def test_what_is_no_app_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    for path, code, said in (
        ("shop", 2, "module:app"),
        ("shop.py:app", 2, "as an import does"),
        ("./shop.py:app", 2, "as an import does"),
        ("nowhere:app", 3, "no module nowhere"),
        ("shop:nothing", 3, 'no App named "nothing"'),
        ("shop:empty", 2, "no handlers"),
    ):
        done = cli("broker", "worker", path)
        assert (done.code, said in done.err) == (code, True), done.err
    assert cli("broker", "dead", "retry").code == 2


def test_a_module_that_cannot_be_imported_is_told_with_its_error(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "unfinished.py").write_text("def bill(:")
    answer = cli("broker", "worker", "unfinished:app")
    assert answer.code == 2
    assert "module unfinished cannot be imported: SyntaxError" in answer.err
    assert "should not happen" not in answer.err
    (tmp_path / "needy.py").write_text("import nothing_of_this_name")
    answer = cli("broker", "worker", "needy:app")
    assert answer.code == 2
    assert "module needy cannot be imported: ModuleNotFoundError" in answer.err
    (tmp_path / "wrong.py").write_text(
        "import trunkline\n"
        "app = trunkline.App()\n"
        "@app.on('orders', group='billing', name='bill', condition='rubbish (')\n"
        "def bill(order): ...\n"
    )
    answer = cli("broker", "worker", "wrong:app")
    assert answer.err.startswith('error: handler "bill" of "billing": ')


def test_a_handler_that_is_declared_wrongly_is_told_as_python_tells_it(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "hasty.py").write_text(
        "import trunkline\n"
        "app = trunkline.App()\n"
        "@app.on('orders', group='billing', retry=['100ms'])\n"
        "def bill(order): ...\n"
    )
    answer = cli("broker", "worker", "hasty:app")
    assert answer.code == 2
    assert answer.err.startswith('error: handler "bill": retry is a list of seconds')
