"""`sync` on a cluster: a master and a worker of Spark as processes of their own, on loopback.

Only what is in the wheel of PySpark is used. On machines of their own the same three things are
needed: the executors have this Python environment, they reach the database, and they are told its
address by the driver.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark

import trunkline
from trunkline.spark import session, sync
from trunkline.spark.java import find_java

HOST = "127.0.0.1"
ROWS = 5_000
TABLES = """
drop table if exists example_order, example_copy;
create table example_order (id bigint primary key, amount numeric(12, 2), note text);
create table example_copy (like example_order including all);
"""
CHANGES = f"""
insert into example_order select i, i * 1.25, 'order ' || i from generate_series(1, {ROWS}) i;
update example_order set amount = 0 where id % 10 = 0;
delete from example_order where id % 7 = 0;
"""


@contextmanager
def daemon(kind: str, *words: str, folder: str) -> Iterator[None]:
    """A process of the cluster; it ends with the block."""
    home = Path(pyspark.__file__).parent
    process = subprocess.Popen(
        [home / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", "--host", HOST, *words],
        env=os.environ
        | {
            "JAVA_HOME": str(find_java()),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOG_DIR": folder,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def free_port() -> int:
    with socket.socket() as asked:
        asked.bind((HOST, 0))
        return int(asked.getsockname()[1])


def wait_for(port: int, seconds: float = 60) -> None:
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")


@contextmanager
def cluster() -> Iterator[str]:
    """A master and one worker with two cores; the address of the master."""
    port = free_port()
    address = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        web = ("--webui-port", "0")
        stack.enter_context(daemon("master.Master", "--port", str(port), *web, folder=folder))
        wait_for(port)
        size = ("--cores", "2", "--memory", "1g", "--work-dir", folder)
        stack.enter_context(daemon("worker.Worker", *size, *web, address, folder=folder))
        yield address


def difference(tl: trunkline.SyncPlatform) -> tuple[int, int]:
    with tl.transaction() as connection:
        row = connection.execute(
            "select (select count(*) from example_copy), count(*)"
            " from (table example_order except table example_copy) d"
        ).fetchone()
        assert row is not None
        return row


with trunkline.connect_sync() as tl, cluster() as master:
    with tl.transaction() as connection:
        connection.execute(TABLES)
    with suppress(trunkline.NotFound):
        tl.tube.drop("example")
    tl.tube.ensure("example", lanes=2)
    tl.tube.attach("example", "example_order")
    with tl.transaction() as connection:
        connection.execute(CHANGES)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # what executors run; here the paths are the same
    spark = session(
        "sync on a cluster",
        master,
        **{"spark.executor.memory": "512m", "spark.driver.host": HOST},
    )
    print("running on", spark.sparkContext.master.partition(":")[0])
    done = sync(spark, "example", "table:example_copy", once=True)
    spark.stop()
    rows, differing = difference(tl)
    print(f"{done.keys} keys, {rows} rows in the copy, {differing} differ")
