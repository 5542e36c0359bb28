"""`session`: Spark set up for Trunkline; `register`: our sources in a session of yours."""

from __future__ import annotations

import os
import re
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trunkline.core.errors import BadRequest
from trunkline.core.extras import insist_on
from trunkline.spark.home import compiled
from trunkline.spark.java import find_java

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

SOURCES = {
    "trunkline.log": "trunkline.spark.log_source:LogSource",
    "trunkline.table": "trunkline.spark.table_source:TableSource",
    "trunkline.tube": "trunkline.spark.tube_source:TubeSource",
    "trunkline.events": "trunkline.spark.events_source:EventsSource",
    "trunkline.kv": "trunkline.spark.kv_source:KvSource",
    "trunkline.delta": "trunkline.spark.delta_sink:DeltaSource",
    "trunkline.iceberg": "trunkline.spark.iceberg_sink:IcebergSource",
}
"""Every format, and the class that is behind it."""

SETTINGS: Mapping[str, str] = {
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What every session gets unless it is told otherwise."""

FAST: Mapping[str, str] = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.streaming.pollingDelay": "1",
}
"""Settings for streams whose latency counts: checkpoints on a local disk, without checksums."""

_LOCAL: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": "trunkline.spark.daemon",
}


_MASTER = re.compile(r"local$|local\[.+\]$|local-cluster\[.+\]$|spark://|k8s://|yarn$")


def session(
    app: str, master: str | None = None, *, remote: str | None = None, **conf: str
) -> SparkSession:
    """The session of this process, made if there is none, with our sources in it.

    ``master`` is ``local[*]`` unless given (``SPARK_REMOTE`` and ``spark-submit`` are obeyed);
    ``remote`` speaks to a Spark Connect server instead. Settings are keyword arguments:
    ``session("app", **{"spark.driver.memory": "4g"})``.
    """
    from pyspark.sql import SparkSession

    if master and remote:
        raise BadRequest("master and remote name two clusters.", hint="Leave one out.")
    if master and not _MASTER.match(master):
        raise BadRequest(
            f'a master is local[N], spark://HOST:PORT, k8s://... or yarn, got "{master}".'
        )
    if remote or "SPARK_REMOTE" in os.environ:
        insist_on("spark-connect", "Spark Connect")
    builder = SparkSession.builder.appName(app)
    if remote:
        for name, value in conf.items():
            builder = builder.config(name, value)
        return register(builder.remote(remote).getOrCreate())
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        os.environ["JAVA_HOME"] = str(find_java())
        os.environ.setdefault("SPARK_CONF_DIR", str(Path(__file__).with_name("conf")))
        master = master or "local[*]"
        builder = builder.master(master)
    settings = dict(SETTINGS)
    local = master is not None and master.startswith("local")
    if local:
        settings |= _LOCAL
        settings["spark.sql.shuffle.partitions"] = str(os.cpu_count() or 2)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    for name, value in (settings | conf).items():
        builder = builder.config(name, value)
    with compiled() if local else nullcontext():
        made = builder.getOrCreate()
    return register(made)


def register(spark: SparkSession) -> SparkSession:
    """Make ``trunkline.log`` and the other formats known to a session; returns the session.

    Harmless where they are known already: Spark finds them by itself when it first looks.
    """
    from pyspark.errors import AnalysisException

    for place in SOURCES.values():
        module, _, name = place.partition(":")
        try:
            spark.dataSource.register(getattr(import_module(module), name))
        except AnalysisException as error:
            if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
                raise
    return spark


def has_ended() -> bool:
    """Whether the JVM that this process started is gone."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - nothing else tells
    return process is not None and process.poll() is not None


def append(rows: DataFrame, format: str, options: Mapping[str, str]) -> None:  # noqa: A002
    """Write rows through a sink of ours, from any thread.

    Spark looks a Python format up in the session that is active in the thread, and a new thread has
    none; to make a frame activates its session.
    """
    rows.sparkSession.createDataFrame([], "nothing int")
    rows.write.format(format).options(**options).mode("append").save()


def run_conf(pairs: list[str]) -> dict[str, Any]:
    """``name=value`` pairs of a command line as settings."""
    conf = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise BadRequest(f'--conf takes spark.name=value, got "{pair}".')
        conf[name] = value
    return conf
