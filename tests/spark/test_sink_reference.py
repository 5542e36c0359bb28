"""The page of the sinks knows every option that there is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trunkline.spark.delta_sink import DeltaSinkOptions
from trunkline.spark.iceberg import IcebergSinkOptions
from trunkline.spark.log_sink import LogSinkOptions
from trunkline.spark.table_sink import TableSinkOptions
from trunkline.spark.table_source import TableSourceOptions

if TYPE_CHECKING:
    from trunkline.spark.options import Options

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "spark-sinks.md"


@pytest.mark.parametrize(
    "options",
    [DeltaSinkOptions, IcebergSinkOptions, LogSinkOptions, TableSinkOptions, TableSourceOptions],
)
def test_every_option_is_in_the_reference(options: type[Options]) -> None:
    text = PAGE.read_text("utf-8")
    assert [name for name in options.names() if f"`{name}`" not in text] == []
