"""Delta tables that demand something of their writers: it is obeyed, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.sql import types as t

from trunkline.core.errors import Conflict, Invalid
from trunkline.spark import delta
from trunkline.spark.delta_rules import NO_RULES, Rules
from trunkline.spark.delta_sink import DeltaSinkOptions, DeltaSource, plan
from trunkline.spark.jobs.targets import target_of
from trunkline.spark.ledger import Batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trunkline.spark.delta_sink import DeltaSinkTarget

COLUMNS = {"id": t.LongType(), "name": t.StringType()}
MAPPED = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "table")


def make(path: str, *, nullable: bool = True, **settings: str) -> DeltaTable:
    columns = [
        Field("id", PrimitiveType("long"), nullable=nullable),
        Field("name", PrimitiveType("string")),
    ]
    return DeltaTable.create(path, schema=Schema(columns), configuration=settings)


def make_by_hand(
    path: Path,
    features: Sequence[str],
    settings: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
    *,
    version: int = 7,
) -> None:
    """A table with features that the library does not make."""
    columns = [
        {"name": "id", "type": "long", "nullable": True, "metadata": metadata or {}},
        {"name": "name", "type": "string", "nullable": True, "metadata": {}},
    ]
    if metadata == MAPPED:
        columns[1]["metadata"] = dict(zip(MAPPED, (2, "col-2"), strict=True))
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": version}
    if version == 7:
        reader = [each for each in features if each in {"columnMapping", "deletionVectors"}]
        protocol |= {
            "minReaderVersion": 3,
            "readerFeatures": reader,
            "writerFeatures": list(features),
        }
    table = {
        "id": "7f7a",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": columns}),
        "partitionColumns": [],
        "configuration": settings or {},
        "createdTime": 1,
    }
    log = path / "_delta_log"
    log.mkdir(parents=True)
    actions = ({"protocol": protocol}, {"metaData": table})
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def planned(path: str, names: Sequence[str] = ("id", "name"), **options: Any) -> DeltaSinkTarget:
    overwrite = options.pop("overwrite", False)
    schema = t.StructType([t.StructField(name, COLUMNS[name]) for name in names])
    return plan(
        DeltaSinkOptions.model_validate({"path": path, **options}), schema, overwrite=overwrite
    )


def write(target: DeltaSinkTarget, number: int, *rows: tuple[Any, ...]) -> None:
    names = target.table.schema.names
    columns = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    batch = pa.RecordBatch.from_pydict(columns, schema=target.table.schema)
    target.commit([target.write(iter([batch]))], Batch("app", number))


def ids(path: str) -> list[int | None]:
    return sorted(pa.table(DeltaTable(path).scan()).column("id").to_pylist())


def constraint(table: DeltaTable) -> None:
    table.alter.add_constraint({"small": "id < 3"})


def test_rows_that_break_a_check_are_refused_and_others_written_once(path: str) -> None:
    constraint(make(path))
    target = planned(path)
    with pytest.raises(Invalid, match=r"break a constraint of the table: 1 rows failed"):
        write(target, 0, (1, "a"), (5, "b"))
    assert DeltaTable(path).version() == 1
    for _ in range(2):
        write(target, 0, (1, "a"), (2, "b"))
    assert ids(path) == [1, 2]
    assert pq.ParquetFile(DeltaTable(path).file_uris()[0]).metadata.num_rows == 2


def test_rows_that_break_a_check_are_refused_in_an_upsert(path: str) -> None:
    constraint(make(path))
    target = planned(path, keys=("id",))
    with pytest.raises(Invalid, match="break a constraint"):
        write(target, 0, (5, "b"))
    write(target, 0, (1, "a"))
    assert ids(path) == [1]


def test_an_overwrite_obeys_a_check(path: str) -> None:
    constraint(make(path))
    target = planned(path, overwrite=True)
    write(target, 0, (1, "a"))
    write(target, 1, (2, "b"))
    assert ids(path) == [2]
    with pytest.raises(Invalid, match="break a constraint"):
        write(target, 2, (5, "b"))


def test_a_null_in_a_column_that_is_not_null_is_refused_by_its_task(path: str) -> None:
    make(path, nullable=False)
    target = planned(path)
    assert not target.table.rules.checked_by_delta
    with pytest.raises(Invalid, match="column id, which is NOT NULL in the table, has a null"):
        write(target, 0, (1, "a"), (None, "b"))
    write(target, 0, (1, "a"))
    assert ids(path) == [1]


def test_a_column_that_is_not_null_must_be_among_the_rows(path: str) -> None:
    make(path, nullable=False)
    with pytest.raises(Invalid, match="no column id, which is NOT NULL"):
        planned(path, ["name"])


@pytest.mark.parametrize("options", [{"overwrite": True}, {"keys": ("id",)}])
def test_an_append_only_table_is_appended_to_and_not_changed(
    path: str, options: dict[str, Any]
) -> None:
    make(path, **{"delta.appendOnly": "true"})
    with pytest.raises(Invalid, match="append-only"):
        planned(path, **options)
    write(planned(path), 0, (1, "a"))
    assert ids(path) == [1]


def test_a_generated_column_is_checked(tmp_path: Path, path: str) -> None:
    generated = {"delta.generationExpression": "7"}
    make_by_hand(tmp_path / "table", ["generatedColumns"], metadata=generated)
    with pytest.raises(Invalid, match="break a constraint"):
        write(planned(path), 0, (1, "a"))
    write(planned(path), 0, (7, "a"))
    write(planned(path, ["name"]), 1, ("b",))
    assert ids(path) == [7, 7]


@pytest.mark.parametrize(
    ("features", "settings", "metadata", "version", "named"),
    [
        (["rowTracking", "madeUp"], {}, {}, 7, "madeUp, rowTracking"),
        (["columnMapping"], {"delta.columnMapping.mode": "name"}, MAPPED, 7, "columnMapping"),
        ([], {"delta.columnMapping.mode": "id"}, MAPPED, 5, "columnMapping"),
        ([], {}, {"delta.identity.start": 1}, 6, "identityColumns"),
        ([], {}, {}, 8, "writer version 8"),
    ],
)
def test_a_feature_that_is_not_obeyed_is_refused_by_name(
    tmp_path: Path,
    features: list[str],
    settings: dict[str, str],
    metadata: dict[str, Any],
    version: int,
    named: str,
) -> None:
    place = tmp_path / "table"
    make_by_hand(place, features, settings, metadata, version=version)
    with pytest.raises(Invalid, match=f"the table demands {named} of its writers"):
        planned(str(place))


@pytest.mark.parametrize(
    "features", [["columnMapping"], ["appendOnly", "invariants", "deletionVectors"]]
)
def test_a_feature_that_is_not_in_use_does_not_matter(
    tmp_path: Path, path: str, features: list[str]
) -> None:
    make_by_hand(tmp_path / "table", features)
    write(planned(path), 0, (1, "a"))
    assert DeltaTable(path).version() == 1


def test_a_constraint_that_came_while_rows_were_written_is_not_passed_over(path: str) -> None:
    make(path)
    target = planned(path)
    constraint(DeltaTable(path))
    with pytest.raises(Conflict, match="constraints or features of the table changed"):
        write(target, 0, (5, "a"))
    assert ids(path) == []


def test_a_commit_that_the_table_refuses_for_good_is_not_tried_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(path)
    write(planned(path), 0, (1, "a"))
    target = planned(path, overwrite=True)
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
    monkeypatch.setattr(delta.Rules, "of", lambda _table: NO_RULES)
    slept: list[float] = []
    monkeypatch.setattr(delta.time, "sleep", slept.append)
    with pytest.raises(Conflict, match=r"the table refuses the commit: .* append-only"):
        write(target, 1, (2, "a"))
    assert not slept


@pytest.mark.parametrize(
    ("kind", "checked"),
    [
        (pa.struct([pa.field("a", pa.int64(), nullable=False)]), True),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), True),
        (pa.list_(pa.struct([pa.field("a", pa.int64())])), False),
    ],
)
def test_only_delta_checks_what_is_not_null_inside_of_a_value(
    path: str, kind: pa.DataType, checked: bool
) -> None:
    write_deltalake(path, pa.table({"v": pa.array([], kind)}))
    assert Rules.at(path).checked_by_delta == checked


def read(path: str, columns: str = "id,name") -> list[tuple[Any, ...]]:
    """What the source gives of a table, without Spark."""
    source = DeltaSource({"path": path, "columns": columns})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return sorted((tuple(row.values()) for batch in batches for row in batch.to_pylist()), key=repr)


def test_rows_that_a_deletion_vector_names_are_not_read(tmp_path: Path, path: str) -> None:
    make_by_hand(tmp_path / "table", ["deletionVectors"])
    pq.write_table(pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}), f"{path}/f.parquet")
    second_row = "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg0rr91"
    file = {
        "path": "f.parquet",
        "partitionValues": {},
        "size": Path(path, "f.parquet").stat().st_size,
        "modificationTime": 1,
        "dataChange": True,
        "stats": '{"numRecords": 3}',
        "deletionVector": {
            "storageType": "i",
            "pathOrInlineDv": second_row,
            "sizeInBytes": 34,
            "cardinality": 1,
        },
    }
    Path(path, "_delta_log", f"{1:020}.json").write_text(json.dumps({"add": file}))
    assert read(path) == [(1, "a"), (3, "c")]
    write(planned(path), 0, (4, "d"))
    assert read(path) == [(1, "a"), (3, "c"), (4, "d")]
    write(planned(path, keys=("id",)), 1, (1, "z"))
    assert read(path) == [(1, "z"), (3, "c"), (4, "d")]


def test_columns_that_are_not_in_the_files_are_read(path: str) -> None:
    table = pa.table({"id": [1, 2], "day": ["a/b %=", None]})
    write_deltalake(path, table, partition_by=["day"])
    DeltaTable(path).alter.add_columns(Field("name", PrimitiveType("string")))
    assert read(path, "day,id,name") == [("a/b %=", 1, None), (None, 2, None)]
    assert read(path, "day") == [("a/b %=",), (None,)]
    with pytest.raises(Invalid, match="no column nothing"):
        read(path, "nothing")


def test_a_table_that_maps_names_is_not_read_wrong(tmp_path: Path, path: str) -> None:
    make_by_hand(
        tmp_path / "table", ["columnMapping"], {"delta.columnMapping.mode": "name"}, MAPPED
    )
    with pytest.raises(Invalid, match="demands columnMapping of its readers"):
        read(path)


def test_a_relative_path_is_refused() -> None:
    for given in ("lake/orders", "./orders", "file:orders"):
        with pytest.raises(Invalid, match=r"option path: a path in a lake is absolute or an addr"):
            DeltaSinkOptions.parse({"path": given})
        with pytest.raises(Invalid, match="a path in a lake is absolute"):
            target_of(f"delta:{given}", "", relation="orders", several=False)
