"""The page of the examples in a real browser, which is asked over its DevTools protocol."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

import httpx
import psycopg
import pytest
from tests.fixtures.programs import environment
from websockets.sync.client import connect

from trunkline.testing import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from websockets.sync.client import ClientConnection

PROGRAM = shutil.which("chromium")
PAGE = Path(__file__).parents[2] / "examples" / "live_page.html"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
TICKETS = """
create table example_ticket
  (id int primary key, title text not null, state text not null default 'open');
insert into example_ticket values (1, 'no water'), (2, 'no heat'), (3, 'no rest');
select trunkline.live_watch('example_ticket');
"""
OPEN = "select to_jsonb(t) from example_ticket t where state = 'open' order by id"
SHOWN = "[...document.querySelectorAll('#tickets li')].map((line) => line.textContent)"

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium on this machine: apt-get install chromium"
)


class Tab:
    """A page in the browser."""

    def __init__(self, line: ClientConnection):
        self._line = line
        self._numbers = count(1)

    def open(self, url: str) -> None:
        """Go to an address."""
        self._ask("Page.navigate", url=url)

    def shows(self, *titles: str) -> None:
        """Wait until whoever looks at it reads these."""

        def read() -> None:
            answer = self._ask("Runtime.evaluate", expression=SHOWN, returnByValue=True)
            assert answer["result"]["value"] == list(titles)

        wait_until(read, 20)

    def _ask(self, method: str, **given: Any) -> Any:
        number = next(self._numbers)
        self._line.send(json.dumps({"id": number, "method": method, "params": given}))
        answer = json.loads(self._line.recv(timeout=10))
        assert (answer["id"], "error" in answer) == (number, False), answer
        return answer["result"]


class Site(ThreadingHTTPServer):
    """Serves the page, and the rows that it begins with, and counts how often it begins."""

    def __init__(self, dsn: str, gateway: str):
        self.dsn = dsn
        self.gateway = gateway
        self.begun = 0
        super().__init__(("127.0.0.1", 0), _Page)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def answer(self, kind: str, text: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_told: Any) -> None:
        pass


class _Page(_Answer):
    def do_GET(self) -> None:
        site = cast("Site", self.server)
        if self.path == "/tickets":
            site.begun += 1
            with psycopg.connect(site.dsn) as connection:
                rows = [row for (row,) in connection.execute(OPEN)]
            self.answer("application/json", json.dumps(rows))
        else:
            page = PAGE.read_text("utf-8").replace("GATEWAY", site.gateway)
            self.answer("text/html; charset=utf-8", page)


class _Refusal(_Answer):
    def do_GET(self) -> None:
        cast("Any", self.server).refused.append(self.path)
        self.answer("text/plain", "no gateway is there", 503)

    do_POST = do_OPTIONS = do_GET  # noqa: N815


@contextmanager
def answering(server: ThreadingHTTPServer) -> Iterator[None]:
    with server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a browser without a screen listens."""
    home = tmp_path_factory.mktemp("chromium")
    words = [str(PROGRAM), *FLAGS, f"--user-data-dir={home}"]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def port() -> int:
        return int((home / "DevToolsActivePort").read_text("ascii").split()[0])

    try:
        yield f"http://127.0.0.1:{wait_until(port, 30, also=(OSError, ValueError, IndexError))}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def sql(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to the database with the table that the page follows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TICKETS)
        yield connection


@pytest.fixture
def port() -> int:
    """Where the gateway is, as often as it is started."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def site(dsn: str, sql: psycopg.Connection[Any], port: int) -> Iterator[Site]:
    served = Site(dsn, f"http://127.0.0.1:{port}")
    with answering(served):
        yield served


@pytest.fixture
def tab(browser: str) -> Iterator[Tab]:
    target = httpx.put(f"{browser}/json/new").json()
    with connect(target["webSocketDebuggerUrl"]) as line:
        yield Tab(line)
    httpx.get(f"{browser}/json/close/{target['id']}")


@contextmanager
def gateway(site: Site) -> Iterator[None]:
    """`trunkline serve`, until the block ends."""
    words = ["serve", "--insecure", "--port", site.gateway.rpartition(":")[2], "--cors", site.url]
    with subprocess.Popen(
        [sys.executable, "-m", "trunkline", *words],
        env=environment(TRUNKLINE_DSN=site.dsn),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == site.gateway
            yield
        finally:
            process.terminate()
            process.wait(20)


def test_rows_appear_change_and_leave_as_the_table_changes(
    site: Site, tab: Tab, sql: psycopg.Connection[Any]
) -> None:
    with gateway(site):
        tab.open(site.url)
        tab.shows("no water", "no heat", "no rest")
        sql.execute("insert into example_ticket values (4, 'no light')")
        tab.shows("no water", "no heat", "no rest", "no light")
        sql.execute("update example_ticket set title = title || '!' where id = 2")
        tab.shows("no water", "no heat!", "no rest", "no light")
        sql.execute("update example_ticket set state = 'done' where id = 1")
        sql.execute("delete from example_ticket where id = 3")
        tab.shows("no heat!", "no light")
        sql.execute("update example_ticket set state = 'open' where id = 1")
        tab.shows("no water", "no heat!", "no light")
        assert site.begun == 1
        sql.execute("truncate example_ticket")
        tab.shows()


def test_a_page_goes_on_where_it_was_when_the_gateway_has_been_away(
    site: Site, tab: Tab, sql: psycopg.Connection[Any]
) -> None:
    with gateway(site):
        tab.open(site.url)
        tab.shows("no water", "no heat", "no rest")
        sql.execute("insert into example_ticket values (4, 'no light')")
        tab.shows("no water", "no heat", "no rest", "no light")
    sql.execute("insert into example_ticket values (5, 'no tea'), (6, 'no sugar')")
    sql.execute("update example_ticket set title = 'some heat' where id = 2")
    sql.execute("delete from example_ticket where id in (3, 5)")
    with gateway(site):
        tab.shows("no water", "some heat", "no light", "no sugar")
        sql.execute("update example_ticket set state = 'done' where id = 1")
        tab.shows("some heat", "no light", "no sugar")
    assert site.begun == 1


def test_a_page_that_was_refused_begins_anew_when_the_gateway_is_back(
    site: Site, tab: Tab, sql: psycopg.Connection[Any], port: int
) -> None:
    with gateway(site):
        tab.open(site.url)
        tab.shows("no water", "no heat", "no rest")
    proxy = ThreadingHTTPServer(("127.0.0.1", port), _Refusal)
    refused = cast("Any", proxy).refused = list[str]()

    def given_up() -> None:
        assert any(path.startswith("/v1/live/") for path in refused)

    with answering(proxy):
        wait_until(given_up, 20)
    sql.execute("delete from example_ticket where id = 1")
    with gateway(site):
        tab.shows("no heat", "no rest")
        sql.execute("insert into example_ticket values (4, 'no light')")
        tab.shows("no heat", "no rest", "no light")
