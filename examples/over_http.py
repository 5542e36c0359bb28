"""Everything over HTTP, with any client: here httpx, and a gateway of `trunkline serve`.

Messages whose answer got lost are sent again and stored once. A stream that was cut goes on after
the last id. A key is changed only by who has read it last. What makes no sense is told by a code.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from uuid import uuid4

import httpx

import trunkline

TOPIC = "example.http"


@contextmanager
def gateway(dsn: str):
    """The address of a gateway that lives as long as the block.

    With `--insecure` nobody needs a token: for trying only.
    """
    served = subprocess.Popen(
        [sys.executable, "-m", "trunkline", "serve", "--port", "0", "--insecure"],
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


def append_twice(http: httpx.Client) -> None:
    """As one who has not heard the first answer."""
    http.delete(f"/v1/log/{TOPIC}")
    http.put(f"/v1/log/{TOPIC}", json={"retention": "7d"}).raise_for_status()
    orders = [{"key": "alice", "value": "paid 10"}, {"key": "bob", "value": "paid 20"}]
    body = {"messages": orders, "producer_id": str(uuid4()), "producer_seq": 1}
    first, second = (http.post(f"/v1/log/{TOPIC}", json=body).json() for _ in range(2))
    stored = http.get(f"/v1/log/{TOPIC}/messages").json()["messages"]
    print("sent twice, answered alike:", first == second)
    print("stored:", [(message["offset"], message["value"]) for message in stored])


def follow(http: httpx.Client, after: str | None, publish: list[int]) -> str:
    """Publish events and print them as the stream tells them; the id to go on after."""
    params = {"pattern": TOPIC, **({"after": after} if after else {})}
    with http.stream("GET", "/v1/broker/stream", params=params) as stream:
        lines = stream.iter_lines()
        token = after
        events = [{"topic": TOPIC, "payload": {"order": number}} for number in publish]
        http.post("/v1/broker/events", json=events).raise_for_status()
        seen = []
        while len(seen) < 2:
            name, _, text = next(lines).partition(": ")
            if name == "id":
                token = text
            elif name == "data":
                seen.append(json.loads(text)["payload"]["order"])
        print("the stream tells of orders", seen)
    return token


def change(http: httpx.Client) -> None:
    http.put("/v1/kv/example:cart", json={"items": 1}).raise_for_status()
    version = {"if-match": http.get("/v1/kv/example:cart").headers["etag"]}
    mine = http.put("/v1/kv/example:cart", json={"items": 2}, headers=version)
    late = http.put("/v1/kv/example:cart", json={"items": 9}, headers=version)
    print("the first is answered with", mine.status_code, "and the late one with", late.status_code)
    print("the cart:", http.get("/v1/kv/example:cart").json())


def misunderstand(http: httpx.Client) -> None:
    problem = http.put(f"/v1/log/{TOPIC}", json={"retention": "soon"}).json()
    print(problem["code"], problem["detail"])


with (
    trunkline.connect_sync() as tl,
    gateway(tl.dsn) as url,
    httpx.Client(base_url=url, timeout=30) as http,
):
    append_twice(http)
    after = follow(http, None, [1, 2])
    http.post("/v1/broker/events", json={"topic": TOPIC, "payload": {"order": 3}})  # meanwhile
    follow(http, after, [4])
    change(http)
    misunderstand(http)
    http.delete(f"/v1/log/{TOPIC}")
    http.delete("/v1/kv/example:cart")
