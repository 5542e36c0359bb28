"""The reference says what the code says."""

from __future__ import annotations

import inspect
import json
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from tests.docs.page import blocks

from trunkline.core import errors
from trunkline.core.settings import Settings
from trunkline.gateway.settings import GatewaySettings
from trunkline.spark.options import Options
from trunkline.spark.session import SOURCES
from trunkline.spark.sink import SinkOptions

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
GOLDEN = sorted(path for path in (ROOT / "tests" / "log" / "golden").glob("*.json"))


@pytest.fixture(scope="module")
def generate() -> Any:
    spec = spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", sorted(REFERENCE.glob("*.md")), ids=lambda page: page.name)
def test_generated_parts_are_what_the_code_says(
    page: Path, generate: Any, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRUNKLINE_DSN", dsn)
    assert page.read_text("utf-8") == generate.render(page), "run: python docs/generate.py"


def test_every_function_stands_under_a_theme(generate: Any) -> None:
    assert generate.unsorted_functions() == set()


def test_every_format_of_spark_and_all_its_options_are_described(generate: Any) -> None:
    def below(kind: type[Options]) -> set[type[Options]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    shown = {options for uses in generate.FORMATS.values() for options in uses.values()}
    assert set(generate.FORMATS) == set(SOURCES)
    assert below(Options) - shown == {Options, SinkOptions}


def test_every_environment_variable_is_described() -> None:
    page = (REFERENCE / "config.md").read_text("utf-8")
    for name, field in Settings.model_fields.items():
        default = "" if field.default_factory or field.default is None else str(field.default)
        row = next(line for line in page.splitlines() if f"`TRUNKLINE_{name.upper()}`" in line)
        assert default.lower() in row, name


def test_every_metric_is_described() -> None:
    page = (ROOT / "docs" / "how-to" / "run-in-production.md").read_text("utf-8")
    code = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    counted = " ".join(re.findall(r'(?:counter|_count)\(\s*(".*)', code))
    made = set(re.findall(r'"([a-z_]+)"', counted))
    assert made
    assert set(re.findall(r"`trunkline_([a-z_]+)_total`", page)) == made


def test_every_error_has_a_paragraph() -> None:
    page = (REFERENCE / "errors.md").read_text("utf-8")
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.TrunklineError):
            assert name == "TrunklineError" or f"{name}\n" in page, name


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.stem)
def test_the_decoder_of_the_page_reads_the_golden_batches(golden: Path) -> None:
    names: dict[str, Any] = {}
    exec(
        next(b.text for b in blocks(REFERENCE / "record-batch.md") if b.language == "python"), names
    )
    content = json.loads(golden.read_text("utf-8"))
    if "row" not in content:
        return
    row = {
        name: bytes.fromhex(value) if isinstance(value, str) and name != "at" else value
        for name, value in content["row"].items()
    }
    expected = [
        (
            message["offset"],
            None if message["key"] is None else bytes.fromhex(message["key"]),
            None if message["value"] is None else bytes.fromhex(message["value"]),
            message["headers"],
        )
        for message in content["messages"]
    ]
    assert list(names["messages"](row)) == expected


def test_every_setting_of_the_gateway_is_described() -> None:
    text = "".join(page.read_text("utf-8") for page in REFERENCE.glob("*.md"))
    for name in GatewaySettings.model_fields:
        assert f"`TRUNKLINE_{name.upper()}`" in text, name


def test_every_code_with_which_a_websocket_is_closed_is_described() -> None:
    page = (REFERENCE / "graphql.md").read_text("utf-8")
    code = (ROOT / "src" / "trunkline" / "gateway" / "websocket.py").read_text("utf-8")
    codes = set(re.findall(r"(?:[Cc]lose\(|_end_after\([^,]+, )(\d{4})", code))
    assert {"1001", "4408"} <= codes
    for number in codes:
        assert f"| {number} |" in page, number
