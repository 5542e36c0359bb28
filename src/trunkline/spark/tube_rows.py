"""Tasks of the tube source: one query per task; the server unnests, joins and casts.

A range of positions is closed when it is planned: every change in it is committed, so a row that is
read now is at least as new as each of them, and a key that comes twice is read once.

The planner cannot know how many keys a range has, and would look each of them up. Where they are a
good part of the table, it is told not to: one scan costs less than so many look-ups.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psycopg import sql
from pyspark.sql import types as t

from trunkline.core.errors import Invalid, NotFound
from trunkline.core.execution import translated
from trunkline.core.words import counted
from trunkline.spark import calls, connection
from trunkline.spark.columns import Selection, quoted, selection
from trunkline.tube import calls as tube_calls

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa

    from trunkline.spark.attached import Attached

DELETED = "_deleted"

_LOOK_UP = 3  # rows of a scan that cost about as much as looking one up
_JOINED = ("set enable_nestloop = off", "set work_mem = '64MB'")

_TOUCHES = """
select e.relation, e.shard, e.op, k.key, e.payload::text as payload, e.control,
       e.up_to as position, {priority} as priority, e.at{document}
  from trunkline.tube_read({tube}, {lane}, {priority}, {first}, {last}, 2147483647) e
  left join lateral {keys} on true
 where {chosen}"""
_BARE = "unnest(e.keys) k (key)"
_ENRICHED = """(
    select d.key, d.document
      from trunkline.tube_enrich_text(
             e.attachment, e.keys, array_fill(e.shard, array[cardinality(e.keys)])) d
     where e.attachment is not null
    union all
    select u.key, null from unnest(e.keys) u (key) where e.attachment is null) k"""
_KEYS = """
      select unnest(e.keys) as key
        from trunkline.tube_read({tube}, {lane}, {priority}, {first}, {last}, 2147483647) e
       where {chosen}"""
_COUNT = """
select coalesce(sum(cardinality(e.keys)), 0)
  from trunkline.tube_read({tube}, {lane}, {priority}, {first}, {last}, 2147483647) e
 where {chosen}"""
_TRUNCATED = """
select e.up_to
  from trunkline.tube_read({tube}, {lane}, {priority}, {first}, {last}, 2147483647) e
 where e.control = 'truncate' and {chosen}"""
_ROWS = """
  select {columns}, (r.{first_key} is null) as {deleted}
    from (select distinct {keys} from ({touched}
         ) t where {chosen}) t
    left join (select * from {relation} r where {condition}) r on {same}"""


@dataclass(frozen=True, slots=True)
class Span:
    """Positions ``first`` to ``last`` of one lane and priority."""

    lane: int
    priority: int
    first: int
    last: int


@dataclass(frozen=True)
class Slice:
    """What one task reads: spans of a lane, and of their keys a share."""

    dsn: str
    tube: str
    relation: str | None
    enrich: str
    spans: tuple[Span, ...] = ()
    bucket: int = 0
    buckets: int = 1

    def __repr__(self) -> str:
        return f"Slice({self.tube!r}, {self.spans})"

    def divide(self, spans: Sequence[Span], least: int) -> list[Slice]:
        """These spans in so many parts at least, one or more per lane; a pure function of both."""
        lanes = sorted({span.lane for span in spans})
        buckets = -(-least // len(lanes)) if lanes else 0
        return [
            replace(
                self,
                spans=tuple(span for span in spans if span.lane == lane),
                bucket=bucket,
                buckets=buckets,
            )
            for lane in lanes
            for bucket in range(buckets)
        ]


def attached(dsn: str, tube: str, relation: str) -> Attached:
    """A table of a tube; `NotFound` when it is not attached."""
    if found := connection.db(dsn).run(calls.attached(tube, relation)):
        return found[0]
    raise NotFound(
        f'table {relation} is not attached to tube "{tube}".',
        hint=f"Attach it: trunkline tube attach {tube} {relation}",
    )


def tables(dsn: str, tube: str) -> list[Attached]:
    """The tables that are attached to a tube."""
    database = connection.db(dsn)
    found = database.run(calls.attached(tube))
    if not found and all(row.tube != tube for row in database.run(tube_calls.list_tubes())):
        raise NotFound(f'there is no tube "{tube}".', hint="List them: trunkline tube list")
    return found


def refuse_others(dsn: str, tube: str, mine: Collection[str], *, hint: str) -> None:
    """`Invalid` when a tube has more tables than a reader takes: it would acknowledge their changes
    unread."""
    others = [row.relation for row in tables(dsn, tube) if row.relation not in mine]
    if others:
        raise Invalid(
            f'tube "{tube}" has {counted(len(others), "more table")}, whose changes would be'
            f" taken for done: {', '.join(others)}.",
            hint=hint,
        )


def truncated_at(asked: Slice) -> int | None:
    """The first position in the spans at which the table was truncated."""
    query = " union all ".join(
        _TRUNCATED.format(tube=_literal(asked.tube), chosen=_of_table(asked), **_bounds(span))
        for span in asked.spans
    )
    if not query:
        return None
    with translated(), connection.db(asked.dsn).connection() as looking:
        return min((row[0] for row in looking.execute(query.encode())), default=None)


def schema_of(asked: Slice) -> t.StructType:
    """The schema of what a slice gives."""
    if asked.enrich == "columns" and asked.relation is not None:
        return t.StructType([*_table(asked).schema.fields, _field(DELETED, t.BooleanType())])
    return t.StructType(
        [
            _field("relation", t.StringType()),
            _field("shard", t.IntegerType()),
            _field("op", t.StringType()),
            _field("key", t.StringType()),
            _field("payload", t.StringType()),
            _field("control", t.StringType()),
            _field("position", t.LongType()),
            _field("priority", t.IntegerType()),
            _field("at", t.TimestampType()),
            *([_field("document", t.StringType())] if asked.enrich == "json" else []),
        ]
    )


def _field(name: str, kind: t.DataType) -> t.StructField:
    return t.StructField(name, kind)


def read_slice(asked: Slice) -> Iterator[pa.RecordBatch]:
    """The rows of a slice, as Arrow brings them."""
    with connection.plain_errors():
        chosen, query = _query(asked)
        with connection.adbc(asked.dsn) as arrow, arrow.cursor() as cursor:
            for setting in _JOINED if is_large(asked) else ():
                cursor.execute(setting)
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                yield chosen.conform(batch)


def is_large(asked: Slice) -> bool:
    """Whether a scan of the table brings the rows sooner than a look-up of every key."""
    if asked.enrich != "columns" or asked.relation is None:
        return False
    table = attached(asked.dsn, asked.tube, asked.relation)
    touched = " union all ".join(
        _COUNT.format(tube=_literal(asked.tube), chosen=_of_table(asked), **_bounds(span))
        for span in asked.spans
    )
    with translated(), connection.db(asked.dsn).connection() as counting:
        keys = sum(int(row[0]) for row in counting.execute(touched.encode())) / asked.buckets
    return 0 < table.estimate <= keys * _LOOK_UP


def _query(asked: Slice) -> tuple[Selection, str]:
    text = _rows_query(asked) if asked.enrich == "columns" else _touches_query(asked)
    with translated(), connection.db(asked.dsn).connection() as describing:
        chosen = selection(describing, f"({text}) x")
    return chosen, f"select {chosen.sql} from ({text}) x"


def _touches_query(asked: Slice) -> str:
    chosen = [_share(asked, "coalesce(k.key, '')")]
    if asked.relation is not None:
        chosen.append(_of_table(asked))
    enriched = asked.enrich == "json"
    parts = [
        _TOUCHES.format(
            tube=_literal(asked.tube),
            **_bounds(span),
            document=", k.document" if enriched else "",
            keys=_ENRICHED if enriched else _BARE,
            chosen=" and ".join(chosen),
        )
        for span in asked.spans
    ]
    return " union all ".join(parts) + " order by position"


def _rows_query(asked: Slice) -> str:
    assert asked.relation is not None
    table = attached(asked.dsn, asked.tube, asked.relation)
    touched = " union all ".join(
        _KEYS.format(tube=_literal(asked.tube), chosen=_of_table(asked), **_bounds(span))
        for span in asked.spans
    )
    several = len(table.key_columns) > 1
    keys = [
        f"{f'(t.key::jsonb ->> {place})' if several else 't.key'}::{kind} as {quoted(name)}"
        for place, (name, kind) in enumerate(zip(table.key_columns, table.key_types, strict=True))
    ]
    columns = [
        f"coalesce(r.{quoted(name)}, t.{quoted(name)}) as {quoted(name)}"
        if name in table.key_columns
        else f"r.{quoted(name)}"
        for name in _table(asked).schema.fieldNames()
    ]
    return _ROWS.format(
        columns=", ".join(columns),
        first_key=quoted(table.key_columns[0]),
        deleted=quoted(DELETED),
        keys=", ".join(keys),
        touched=touched,
        chosen=_share(asked, "t.key"),
        relation=table.relation,
        condition=table.condition,
        same=" and ".join(f"r.{quoted(name)} = t.{quoted(name)}" for name in table.key_columns),
    )


def _table(asked: Slice) -> Selection:
    assert asked.relation is not None
    with translated(), connection.db(asked.dsn).connection() as describing:
        return selection(describing, attached(asked.dsn, asked.tube, asked.relation).relation)


def _of_table(asked: Slice) -> str:
    """Whether an entry e is of the table of the slice."""
    assert asked.relation is not None
    named = f"{_literal(asked.tube)}, {_literal(asked.relation)}"
    return f"e.attachment = any ((select trunkline._spark_attachments({named}))::int[])"


def _share(asked: Slice, key: str) -> str:
    if asked.buckets == 1:
        return "true"
    return f"(hashtext({key}) & 2147483647) % {asked.buckets} = {asked.bucket}"


def _bounds(span: Span) -> dict[str, int]:
    return {
        "lane": span.lane,
        "priority": span.priority,
        "first": span.first,
        "last": span.last,
    }


def _literal(text: str) -> str:
    return sql.Literal(text).as_string()
