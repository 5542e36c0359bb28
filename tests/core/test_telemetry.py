"""Log lines and metrics."""

from __future__ import annotations

import io
import json
import logging
import time
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry

from trunkline.core import telemetry
from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

logger = telemetry.get_logger("trunkline.tests")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger("trunkline")
    before = (root.handlers[:], root.level, root.propagate)
    yield
    root.handlers, root.level, root.propagate = before
    root.setLevel(before[1])


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_pipe_gets_json_lines() -> None:
    pipe = io.StringIO()
    telemetry.configure("info", stream=pipe)

    logger.info("topic made", topic="größe", partitions=3)

    (line,) = lines(pipe)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "topic made",
        "topic": "größe",
        "partitions": 3,
        "level": "info",
        "logger": "trunkline.tests",
    }


def test_a_terminal_gets_lines_for_people() -> None:
    terminal = Terminal()
    telemetry.configure("info", stream=terminal)

    logger.info("topic made", topic="orders")

    assert "topic made" in terminal.getvalue()
    assert "{" not in terminal.getvalue()


def test_the_caller_decides_between_json_and_text() -> None:
    terminal, pipe = Terminal(), io.StringIO()

    telemetry.configure("info", json=True, stream=terminal)
    logger.info("one")
    telemetry.configure("info", json=False, stream=pipe)
    logger.info("two")

    assert [line["event"] for line in lines(terminal)] == ["one"]
    assert "two" in pipe.getvalue()
    assert "{" not in pipe.getvalue()


def test_log_lines_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.configure("info")

    logger.warning("careful")

    captured = capsys.readouterr()
    assert captured.out == ""
    assert json.loads(captured.err)["event"] == "careful"


def test_lines_below_the_level_are_not_written() -> None:
    pipe = io.StringIO()
    telemetry.configure("warning", stream=pipe)

    logger.info("quiet")
    logger.error("loud")

    assert [line["event"] for line in lines(pipe)] == ["loud"]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(Invalid, match="unknown log level 'chatty'"):
        telemetry.configure("chatty")


def test_without_configuration_the_host_program_decides(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "trunkline"):
        logger.info("hello", dsn="postgresql://me:secret@host/db")

    assert capsys.readouterr().out == ""
    assert "hello" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://me:s3cret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgres://me:s3c@ret@host/db", "postgres://me:***@host/db"),
        ("postgresql://:s3cret@host", "postgresql://:***@host"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://host:5432/db?user=me&password=s3cret&x=1", None),
        ("host=h password=s3cret user=me", "host=h password=*** user=me"),
        ("host=h password = 's3 \\'cret' user=me", "host=h password = *** user=me"),
        ("host=h sslpassword=s3cret", "host=h sslpassword=***"),
        (r"password=s3\ cret dbname=d", "password=*** dbname=d"),
        ("password=s3'cret dbname=d", "password=*** dbname=d"),
        ("could not connect to postgresql://me:s3cret@host/db: refused", None),
    ],
)
def test_passwords_in_dsns_are_struck_out(dsn: str, shown: str | None) -> None:
    redacted = telemetry.redact(dsn)

    assert "s3" not in redacted
    assert "cret" not in redacted
    assert shown is None or redacted == shown


@pytest.mark.parametrize("part", ["x", "://", "a:", "a://b:c", "password", "'", "@"])
def test_a_long_text_is_searched_for_passwords_in_no_time(part: str) -> None:
    began = time.monotonic()
    telemetry.redact(part * 100_000)
    assert time.monotonic() - began < 5


def test_no_way_into_a_log_line_lets_a_password_through() -> None:
    dsn = "postgresql://me:s3cret@host/db"
    for as_json in (True, False):
        stream = io.StringIO()
        telemetry.configure("debug", json=as_json, stream=stream)
        try:
            int(dsn)
        except ValueError as error:
            logger.exception("failed", error=error)
        logger.info(f"event {dsn}", nested={"list": [dsn], "password": "s3cret"})
        logger.info("key", password="s3cret", dsn=dsn)
        logging.getLogger("trunkline.other").error("foreign %s", dsn)

        assert "s3cret" not in stream.getvalue()
        assert stream.getvalue().count("***") >= 6
        assert "Traceback" in stream.getvalue()


def test_counters_gauges_and_histograms_are_rendered_by_name() -> None:
    metrics = telemetry.Metrics()

    metrics.counter("log_appended_messages", topic="orders").inc(5)
    metrics.counter("log_appended_messages", topic="orders").inc()
    metrics.gauge("log_lag", topic="orders", group="billing").set(12)
    metrics.histogram("log_append_seconds").observe(0.2)

    text = metrics.render().decode()
    assert 'trunkline_log_appended_messages_total{topic="orders"} 6.0' in text
    assert 'trunkline_log_lag{group="billing",topic="orders"} 12.0' in text
    assert "trunkline_log_append_seconds_count 1.0" in text


def test_registries_do_not_know_of_each_other() -> None:
    registry = CollectorRegistry()
    one, other = telemetry.Metrics(registry), telemetry.Metrics()

    one.counter("things").inc()

    assert registry.get_sample_value("trunkline_things_total") == 1
    assert b"things" not in other.render()


def test_a_name_keeps_its_kind_and_its_labels() -> None:
    metrics = telemetry.Metrics()
    metrics.counter("things", topic="a")

    with pytest.raises(TypeError, match="things is a Counter, not a Gauge"):
        metrics.gauge("things", topic="a")
    with pytest.raises(ValueError, match="label"):
        metrics.counter("things", group="a")


def test_the_default_metrics_are_there_without_set_up() -> None:
    telemetry.counter("tests_of_telemetry", name="default").inc()

    assert b'trunkline_tests_of_telemetry_total{name="default"}' in telemetry.default.render()


def test_a_program_with_logging_of_its_own_gets_text() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        logger = telemetry.get_logger("trunkline.of_a_test")
        logger.warning("dead letter", topic="orders", offset=3, dsn="postgresql://me:secret@host")
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            logger.exception("failed")
    finally:
        root.removeHandler(handler)
    first, second, *_, last = stream.getvalue().splitlines()
    assert first == (
        "WARNING trunkline.of_a_test: dead letter topic=orders offset=3"
        " dsn=postgresql://me:***@host"
    )
    assert second == "ERROR trunkline.of_a_test: failed"
    assert last == "ZeroDivisionError: division by zero"
