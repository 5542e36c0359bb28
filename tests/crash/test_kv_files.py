"""A server whose files are replaced by an older copy of themselves begins a new life.

Neither the system identifier nor the timeline shows it: its peers do.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.crash.test_kv_crash import PROGRAM, keys_of, prepare
from tests.crash.victims import running
from tests.fixtures.asking import ask

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trunkline.core.embedded import Server

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180)]


def copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)


def copied_when_stopped(server: Server, target: Path) -> None:
    server.stop()
    copy(server.data, target)
    server.start()


def copied_when_killed(server: Server, target: Path) -> None:
    """What a snapshot of a volume is: the files of one moment, while the server ran."""
    server.kill()
    copy(server.data, target)
    server.start()


def copied_when_running(server: Server, target: Path) -> None:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as session:
        session.execute("select pg_backup_start('copy', true)")
        copy(server.data, target)
        label = ask(session, "select labelfile from pg_backup_stop(false)")
    shutil.rmtree(target / "pg_wal")
    copy(server.data / "pg_wal", target / "pg_wal")
    (target / "postmaster.pid").unlink()
    (target / "backup_label").write_text(label, "utf-8")
    shutil.chown(target / "backup_label", (target / "PG_VERSION").stat().st_uid)


def go_back(server: Server, backup: Path) -> None:
    server.stop()
    shutil.rmtree(server.data)
    backup.rename(server.data)
    server.start()


def patch(server: Server, n: int, key: str = "visits") -> None:
    run(server, "select trunkline.kv_patch_numeric('default', %s, %s)", key, f'{{"n": {n}}}')


def put(server: Server, key: str, value: str = "1") -> None:
    run(server, "select trunkline.kv_put('default', %s, %s)", key, value)


def run(server: Server, statement: str, *values: Any) -> Any:
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as session:
        return ask(session, statement, list(values))


@contextmanager
def services(*servers: Server) -> Iterator[None]:
    if not servers:
        yield
        return
    with running(PROGRAM, servers[0].dsn("postgres")), services(*servers[1:]):
        yield


def settled(*servers: Server, **expected: Any) -> None:
    """Wait until all zones have the same keys, with the expected values."""

    def same() -> None:
        first, *others = [keys_of(server.dsn("postgres")) for server in servers]
        for other in others:
            assert other == first
        assert {key: first.get(key) for key in expected} == expected

    wait_until(same, 30, also=(psycopg.Error,))


def zones(own_server: Callable[..., Server], *names: str) -> list[Server]:
    servers = [own_server() for _ in names]
    prepare(*((name, each.dsn("postgres")) for name, each in zip(names, servers, strict=True)))
    return servers


@pytest.mark.parametrize("take", [copied_when_stopped, copied_when_killed, copied_when_running])
def test_counts_that_all_zones_had_survive_a_restore_of_the_files(
    own_server: Callable[..., Server], take: Callable[[Server, Path], None]
) -> None:
    east, west = zones(own_server, "east", "west")
    backup = west.home / "backup"
    with services(east, west):
        patch(east, 3)
        patch(west, 1)
        put(west, "deleted")
        settled(east, west, visits={"n": 4})
    take(west, backup)
    before = run(west, "select trunkline.incarnation()")
    with services(east, west):
        patch(west, 4)
        put(west, "kept", "2")
        settled(east, west, visits={"n": 8}, kept=2)
    go_back(west, backup)
    patch(west, 1)
    put(west, "written at once", "3")
    with services(east, west):
        settled(east, west, visits={"n": 9}, kept=2, **{"written at once": 3})
        assert run(west, "select trunkline.incarnation()") > before
        patch(west, 1)
        settled(east, west, visits={"n": 10})


def test_services_that_outlive_the_files_go_on(own_server: Callable[..., Server]) -> None:
    """They hold a position that the restored server never gave out."""
    east, west = zones(own_server, "east", "west")
    with services(east, west):
        patch(west, 1)
        settled(east, west, visits={"n": 1})
        copied_when_stopped(west, west.home / "backup")
        for n in range(20):
            put(east, f"east {n}")
            put(west, f"west {n}")
        patch(west, 7)
        settled(east, west, visits={"n": 8}, **{"west 19": 1, "east 19": 1})
        go_back(west, west.home / "backup")
        for n in range(30):  # more than was lost, so that positions repeat
            put(west, f"later {n}")
        patch(west, 1)
        expected = {"west 19": 1, "east 19": 1, "later 0": 1, "later 29": 1}
        settled(east, west, visits={"n": 9}, **expected)


def test_deleted_keys_do_not_come_back_with_the_files(own_server: Callable[..., Server]) -> None:
    east, west = zones(own_server, "east", "west")
    with services(east, west):
        put(east, "deleted")
        settled(east, west, deleted=1)
    copied_when_stopped(west, west.home / "backup")
    with services(east, west):
        run(east, "select trunkline.kv_delete('default', 'deleted')")
        settled(east, west, deleted=None)
        for server in (east, west):
            run(server, "select trunkline.config_set('kv.dead_keep', '0')")
        wait_until(lambda: forgotten(east, west), 60)
        for server in (east, west):
            run(server, "select trunkline.config_set('kv.dead_keep', null)")
    go_back(west, west.home / "backup")
    with services(east, west):
        settled(east, west, deleted=None)


def forgotten(*servers: Server) -> None:
    for server in servers:
        run(server, "update trunkline.kv_peer set level_at = clock_timestamp() returning 1")
        run(server, "select trunkline.kv_forget()")
        left = "select count(*) from trunkline.kv_entry where key = 'deleted'"
        assert run(server, left) == 0


def test_a_restart_alone_begins_no_life(own_server: Callable[..., Server]) -> None:
    east, west = zones(own_server, "east", "west")
    life = "select count(*) from trunkline.kv_life"
    with services(east, west):
        patch(west, 1)
        settled(east, west, visits={"n": 1})
        for stop in (west.stop, west.kill):
            stop()
            west.start()
            patch(west, 1)
            put(west, "k")
            patch(east, 1)

            def proved() -> None:
                start = "pg_postmaster_start_time()"
                assert run(west, f"select proved_at = {start} from trunkline.kv_life")

            wait_until(proved, 30, also=(psycopg.Error,))
        settled(east, west, visits={"n": 5})
        assert [run(server, life) for server in (east, west)] == [1, 1]
        assert run(west, "select count(*) from trunkline.incarnation") == 1
