"""`Rules`: what a Delta table demands of the rows and of the writer.

Tasks check NOT NULL. CHECK constraints, invariants and generated columns are left to Delta's own
writer. A feature that neither obeys is refused by name before any task runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from trunkline.core.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from deltalake.exceptions import DeltaError

_OBEYED = {
    "appendOnly",
    "invariants",
    "checkConstraints",
    "changeDataFeed",
    "generatedColumns",
    "deletionVectors",
    "timestampNtz",
    "v2Checkpoint",
}
_READ = {"deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
_NEWEST_WRITER = 7
_GENERATED = "delta.generationExpression"


@dataclass(frozen=True)
class Rules:
    """The rules of one table. Holds values only: it is pickled to tasks."""

    not_null: tuple[str, ...] = ()
    checked_by_delta: bool = False
    """Whether Delta's own writer must check the rows: only it evaluates expressions."""
    append_only: bool = False

    @classmethod
    def at(cls, path: str) -> Rules:
        """The rules of the table in a folder; none where there is no table."""
        return cls.of(DeltaTable(path)) if DeltaTable.is_deltatable(path) else cls()

    @classmethod
    def of(cls, table: DeltaTable) -> Rules:
        """The rules of a table; `Invalid` when it demands a feature that is not obeyed."""
        settings = table.metadata().configuration
        columns = json.loads(table.schema().to_json())["fields"]
        if demanded := sorted(_unknown(table, settings, columns)):
            raise Invalid(
                f"the table demands {', '.join(demanded)} of its writers, which this sink does not"
                " obey.",
                hint="Write to a table without it, or with Delta's own format and its options"
                " txnAppId and txnVersion.",
            )
        return cls(
            not_null=tuple(
                column["name"]
                for column in columns
                if not column["nullable"] and _GENERATED not in column["metadata"]
            ),
            checked_by_delta=any(name.startswith("delta.constraints.") for name in settings)
            or any(_has_expression(column) or _is_strict(column["type"]) for column in columns),
            append_only=settings.get("delta.appendOnly", "false") == "true",
        )

    def check(self, rows: pa.Schema, *, changes: bool) -> None:
        """Refuse rows, or ``changes`` to what is there, that the table never takes."""
        if changes and self.append_only:
            raise Invalid(
                "the table is append-only (delta.appendOnly): it takes neither keys nor overwrite.",
                hint="Append to it, or set delta.appendOnly to false.",
            )
        if missing := [name for name in self.not_null if name not in rows.names]:
            raise Invalid(
                f"the rows have no column {', '.join(missing)}, which is NOT NULL in the table."
            )

    def checked(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches; `Invalid` where a column that is NOT NULL has a null."""
        for batch in batches:
            if empty := [name for name in self.not_null if batch.column(name).null_count]:
                raise Invalid(
                    f"column {', '.join(empty)}, which is NOT NULL in the table, has a null.",
                    hint="Leave these rows out, or write another value.",
                )
            yield batch


NO_RULES = Rules()


def refuse_unreadable(table: DeltaTable) -> None:
    """`Invalid` when reading the table needs a feature that `delta_source` does not know."""
    needed = set(table.protocol().reader_features or ()) - _READ - {"columnMapping"}
    if _is_mapped(table.metadata().configuration):
        needed.add("columnMapping")
    if needed:
        raise Invalid(
            f"the table demands {', '.join(sorted(needed))} of its readers, which this source does"
            " not know.",
            hint="Read it with Delta's own format.",
        )


def broken_rule(error: DeltaError) -> Exception:
    """`Invalid` for rows that break a constraint of the table; else the error itself."""
    said = str(error).partition("Invalid data found: ")[2]
    if not said:
        return error
    return Invalid(
        f"the rows break a constraint of the table: {said}",
        hint="Leave these rows out, or change the constraint.",
    )


def _unknown(table: DeltaTable, settings: dict[str, Any], columns: list[Any]) -> Iterator[str]:
    """The features that a table demands and that are not obeyed."""
    protocol = table.protocol()
    if protocol.min_writer_version > _NEWEST_WRITER:
        yield f"writer version {protocol.min_writer_version}"
    demanded = set(protocol.writer_features or ()) - {"columnMapping"}
    if _is_mapped(settings):
        demanded.add("columnMapping")
    if any(name.startswith("delta.identity.") for each in columns for name in each["metadata"]):
        demanded.add("identityColumns")
    yield from demanded - _OBEYED


def _is_mapped(settings: Mapping[str, Any]) -> bool:
    """Whether files have other names for columns than the table."""
    return bool(settings.get("delta.columnMapping.mode", "none") != "none")


def _has_expression(column: dict[str, Any]) -> bool:
    return bool(column["metadata"].keys() & {_GENERATED, "delta.invariants"})


def _is_strict(kind: Any) -> bool:
    """Whether a nested type has a part that is NOT NULL."""
    if not isinstance(kind, dict):
        return False
    inner = [field["type"] for field in kind.get("fields", ())]
    inner += [kind[name] for name in ("elementType", "valueType") if name in kind]
    return (
        any(not field["nullable"] for field in kind.get("fields", ()))
        or not kind.get("containsNull", True)
        or not kind.get("valueContainsNull", True)
        or any(map(_is_strict, inner))
    )
