"""A page that shows the open tickets of a table, live: `live_page.html`, and who serves it.

The page asks the gateway over GraphQL where events stand, loads the rows from this program, and
follows the table from there as server-sent events. This program does the same, changes the table
meanwhile, and compares what is shown with what is there. To look at it in a browser:

    python examples/live_page.py --stay
"""

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread

import httpx

import trunkline

PAGE = Path(__file__).with_suffix(".html")
OPEN = {"state": {"eq": "open"}}
CHANGES = [
    "insert into example_ticket values (4, 'no light'), (5, 'no tea')",
    "update example_ticket set state = 'done' where id in (1, 5)",
    "update example_ticket set title = title || '!' where id = 2",
    "delete from example_ticket where id = 3",
    "update example_ticket set state = 'open' where id = 1",
]


def prepare(tl: trunkline.SyncPlatform) -> None:
    with suppress(trunkline.NotFound):
        tl.live.unwatch("example_ticket")
    with tl.transaction() as connection:
        connection.execute("drop table if exists example_ticket")
        connection.execute(
            "create table example_ticket"
            " (id int primary key, title text not null, state text not null default 'open')"
        )
        connection.execute(
            "insert into example_ticket values (1, 'no water'), (2, 'no heat'), (3, 'no rest')"
        )
    tl.live.watch("example_ticket")


def tickets(tl: trunkline.SyncPlatform) -> list[dict]:
    with tl.transaction() as connection:
        query = "select to_jsonb(t) from example_ticket t where state = 'open' order by id"
        return [row for (row,) in connection.execute(query)]


class Site(BaseHTTPRequestHandler):
    """The page, and the rows that it begins with."""

    tl: trunkline.SyncPlatform
    gateway: str

    def do_GET(self) -> None:
        if self.path == "/":
            self.answer("text/html", PAGE.read_text("utf-8").replace("GATEWAY", self.gateway))
        elif self.path == "/tickets":
            self.answer("application/json", json.dumps(tickets(self.tl)))
        else:
            self.send_error(404)

    def answer(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", f"{kind}; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_) -> None: ...


@contextmanager
def site():
    """The address of the page."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        Thread(target=server.serve_forever, args=[0.05], daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def serving(dsn: str, page: str):
    """The address of a gateway that this page may ask. Nobody needs a token: for trying only."""
    words = ["serve", "--port", "0", "--insecure", "--cors", page]
    served = subprocess.Popen(
        [sys.executable, "-m", "trunkline", *words],
        env={**os.environ, "TRUNKLINE_DSN": dsn},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield served.stdout.readline().strip()
    finally:
        served.terminate()
        served.wait()


def follow(tl: trunkline.SyncPlatform, page: str, gateway: str) -> None:
    """What the page does, in Python, while the table changes."""
    asked = httpx.post(f"{gateway}/graphql", json={"query": "{ eventId }"}, timeout=30)
    after = asked.json()["data"]["eventId"]
    shown = {ticket["id"]: ticket for ticket in httpx.get(f"{page}/tickets").json()}
    print("shown first:", [ticket["title"] for ticket in shown.values()])
    with tl.transaction() as connection:
        for change in CHANGES:
            connection.execute(change)
    there = {ticket["id"]: ticket for ticket in tickets(tl)}

    params = {"after": after, "condition": json.dumps(OPEN)}
    where = f"{gateway}/v1/live/example_ticket"
    with httpx.stream("GET", where, params=params, timeout=30) as stream:
        lines = stream.iter_lines()
        while shown != there:
            name, _, text = next(lines).partition(": ")
            if name == "event":
                event = text
            elif name == "data":
                change = json.loads(text)
                print(event, change["key"]["id"])
                if event in ("deleted", "left"):
                    shown.pop(change["key"]["id"], None)
                else:
                    shown[change["key"]["id"]] = change["row"]
    print("shown at last:", [shown[number]["title"] for number in sorted(shown)])


def stay(tl: trunkline.SyncPlatform, page: str) -> None:
    print(f"Open {page} in a browser; control-C ends.", flush=True)
    with suppress(KeyboardInterrupt):
        for number in count(100):
            with tl.transaction() as connection:
                ticket = [number, f"ticket {number}"]
                connection.execute("insert into example_ticket values (%s, %s)", ticket)
                connection.execute("delete from example_ticket where id = %s", [number - 10])
            time.sleep(1)


with trunkline.connect_sync() as tl:
    prepare(tl)
    with site() as page, serving(tl.dsn, page) as gateway:
        Site.tl, Site.gateway = tl, gateway
        assert gateway in httpx.get(page).text
        if "--stay" in sys.argv[1:]:
            stay(tl, page)
        else:
            follow(tl, page, gateway)
    tl.live.unwatch("example_ticket")
