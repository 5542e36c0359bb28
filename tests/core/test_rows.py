"""Rows of a newer schema: more columns than the models of this package have."""

from __future__ import annotations

import inspect
import pkgutil
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import trunkline
from trunkline import NewEvent
from trunkline.broker.handler_calls import commit, fetch
from trunkline.core.calls import Call, many, one
from trunkline.core.errors import SchemaMismatch
from trunkline.log.batches import pack
from trunkline.log.models import ArchivedFile, SealedSegment
from trunkline.spark.ledger import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SEGMENT = SealedSegment("t", 0, 1, 1, 1, 1, NOW)
# Arguments for parameters by name, or by function and name, where the annotation is not enough.
GIVEN: dict[str, Any] = {
    "segment": SEGMENT,
    "batch": pack([b"x"]),
    "partition": 0,
    "files": [ArchivedFile("x", 1)],
    "start": "earliest",
    "events": [NewEvent("t", {})],
    "after": {0: 1},
    "dsn": "dbname=x",
    "values": {"x": 1},
    "publish_written.events": [],
    "copy.after": ("", ""),
    "commit.batch": Batch("a", 1),
    "fetch_together.asked": [fetch("g", "h", {0: 0}, max_events=1)],
    "commit_together.asked": [commit("g", "h", 0, 1, 1)],
}
BY_KIND: dict[str, Any] = {
    "int": 1,
    "str": "x",
    "bool": True,
    "UUID": uuid.UUID(int=1),
    "float": 1.0,
    "datetime": NOW,
    "timedelta": timedelta(1),
    "bytes": b"x",
}
COLUMNS = """
    select coalesce(o.name, p.proname), coalesce(o.type, p.prorettype)::regtype::text
      from pg_proc p
      left join lateral (
        select a.name, a.type
          from unnest(p.proargnames, p.proargmodes, p.proallargtypes) a (name, mode, type)
         where a.mode in ('t', 'o')) o on true
     where p.pronamespace = 'trunkline'::regnamespace and p.proname = %s
"""
FIELDS = """
    select a.attname, a.atttypid::regtype::text
      from pg_type t join pg_attribute a on a.attrelid = t.typrelid
     where t.oid = %s::regtype and a.attnum > 0 and not a.attisdropped
"""
SAMPLES: dict[str, Any] = {
    "boolean": True,
    "numeric": Decimal(1),
    "double precision": 1.0,
    "uuid": uuid.UUID(int=1),
    "bytea": b"x",
    "timestamp with time zone": NOW,
    "interval": timedelta(1),
    "jsonb": {},
}
# What stands in columns that a function reads further.
READ: dict[str, dict[str, Any]] = {
    "log_archives": {"files": [{"path": "x", "messages": 1, "later": 1}]},
    "log_archive_add": {"files": [{"path": "x", "messages": 1, "later": 1}]},
    "log_describe": {"partition": 0},
    "_broker_cuts": {"cuts": [[1]]},
    "_webhook_endpoints": {"retry": [timedelta(1)], "secrets": [["x", None]]},
    "live_tables": {
        "columns": [
            {
                "name": "x",
                "kind": "text",
                "labels": [],
                "type": "text",
                "nullable": True,
                "array": False,
                "comment": None,
                "later": 1,
            }
        ]
    },
    "tube_version": {"lsn": "0/1"},
    "config_get": {"config_get": "1"},
    "_broker_fetch_many": {"place": 1},
    "_broker_commit_many": {"_broker_commit_many": [1]},
}


def builders() -> Iterator[Callable[..., Call[Any]]]:
    """Every function of the package that describes a call."""
    seen: set[Any] = set()
    for module in pkgutil.walk_packages(trunkline.__path__, "trunkline."):
        if module.name.rpartition(".")[2].endswith(("calls", "lease", "topics")):
            for _, found in inspect.getmembers(import_module(module.name), inspect.isfunction):
                answer = str(found.__annotations__.get("return", ""))
                if answer.startswith("Call[") and found.__name__ not in {"_dead"}:
                    seen.add(found)
    yield from sorted(seen, key=lambda found: (found.__module__, found.__name__))


def described(build: Callable[..., Call[Any]]) -> Call[Any]:
    """The call that a builder makes of whatever fits its parameters."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(build).parameters.items():
        if parameter.default is inspect.Parameter.empty:
            kind = str(parameter.annotation).split(" |")[0]
            fallback = GIVEN.get(name, BY_KIND.get(kind, ()))
            given[name] = GIVEN.get(f"{build.__name__}.{name}", fallback)
    positional = [
        given.pop(name)
        for name, parameter in inspect.signature(build).parameters.items()
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY
    ]
    return build(*positional, **given)


def columns(session: psycopg.Connection[Any], function: str) -> dict[str, str]:
    found = dict(session.execute(COLUMNS, [function]).fetchall())
    if list(found) == [function]:
        found = dict(session.execute(FIELDS, [found[function]]).fetchall()) or found
    return found


def sample(kind: str) -> Any:
    if kind.endswith("[]"):
        return []
    return SAMPLES.get(kind, 1 if "int" in kind else "x")


def test_every_call_ignores_columns_that_it_does_not_know(dsn: str) -> None:
    read = 0
    with psycopg.connect(dsn, autocommit=True) as session:
        for build in builders():
            call = described(build)
            row = {name: sample(kind) for name, kind in columns(session, call.function).items()}
            row |= READ.get(call.function, {})
            known = call.shape([dict(row)])
            if known == [row]:  # handed on as it is
                continue
            assert call.shape([row | {"of_a_later_release": 1}]) == known, call.function
            read += not isinstance(known, int | str | None)
    assert read > 80


def test_a_missing_column_is_a_schema_mismatch_that_names_it() -> None:
    @dataclass
    class Thing:
        name: str
        size: int
        note: str = ""

    assert many(Thing)([{"name": "a", "size": 1}]) == [Thing("a", 1)]
    with pytest.raises(SchemaMismatch, match=r'no column "size" for Thing.*trunkline db install'):
        one(Thing)([{"name": "a", "note": ""}])
