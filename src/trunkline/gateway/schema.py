"""The GraphQL schema of the live tables: five subscriptions for each, and the types they need.

For a table ``contacts`` there are ``contactsCreated``, ``contactsUpdated``, ``contactsDeleted``,
``contactsLeft`` and ``contactsChanged``. Columns of a row may all be null: a role need not have the
right to see each of them.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from graphql import (
    GraphQLArgument,
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLEnumValue,
    GraphQLField,
    GraphQLID,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLString,
)

from trunkline.gateway import naming, queries, scalars
from trunkline.gateway.rendering import written
from trunkline.gateway.subscribing import Subscribed, subscribe_to
from trunkline.live.models import Change, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from graphql import GraphQLNamedInputType, GraphQLNullableOutputType

    from trunkline.live.models import LiveChange, LiveColumn, LiveTable

Fields = dict[str, GraphQLField]

_FIELDS = ("Created", "Updated", "Deleted", "Left", "Changed")
_TYPES = ("", "Key", "Patch", "Condition", "Update", "Deletion", "Departure", "Change")
_SUFFIXES = (*_TYPES, *(f"{field}Subscription" for field in _FIELDS))
_BUILT_IN = ("Query", "Subscription", "LiveTable", "LiveColumn", "LiveChange")
_ORDER = ("gt", "gte", "lt", "lte")

CHANGE = GraphQLEnumType(
    "LiveChange",
    {
        change.name: GraphQLEnumValue(change, description=_text)
        for change, _text in (
            (Change.CREATED, "It was inserted."),
            (Change.UPDATED, "It was updated."),
            (Change.ENTERED, "It was there already, and meets the condition and the policies now."),
            (Change.DELETED, "It was deleted."),
            (Change.LEFT, "It is there, and meets the condition or the policies no longer."),
            (Change.TRUNCATED, "All rows of the table are gone."),
        )
    },
    description="What became of a row.",
)


def build(tables: Sequence[LiveTable], *, shown: Container[str] | None = None) -> GraphQLSchema:
    """Build the schema of these tables, or of the relations ``shown`` among them.

    A table has the same names in every schema, whichever other tables that shows.
    """
    return _Schema(tables).build(shown)


class _Schema:
    """The types that tables share, while a schema is made."""

    def __init__(self, tables: Sequence[LiveTable]):
        self._tables = tables
        self._used = {*_BUILT_IN, "Int", "Float", "String", "Boolean", "ID"}
        self._used.update(scalar.name for scalar in scalars.ALL)
        self._enums: dict[tuple[str, tuple[str, ...]], GraphQLEnumType] = {}
        self._conditions: dict[tuple[str, tuple[str, ...]], GraphQLInputObjectType] = {}

    def build(self, shown: Container[str] | None) -> GraphQLSchema:
        fields: Fields = {}
        roots = naming.unique((table.name for table in self._tables), naming.camel)
        prefixes = {table.name: self._reserve(table.name) for table in self._tables}
        for table in self._tables:
            if shown is None or table.relation in shown:
                made = _Table(self, table, prefixes[table.name])
                fields |= made.subscriptions(roots[table.name])
        return GraphQLSchema(
            query=queries.query(),
            subscription=GraphQLObjectType("Subscription", fields) if fields else None,
            types=scalars.ALL,
        )

    def scalar(self, column: LiveColumn) -> Any:
        """The type of a column, or of an element of it."""
        if not column.labels or not all(map(naming.is_label, column.labels)):
            return scalars.scalar_of(column)
        key = (name := scalars.base(column), column.labels)
        if key not in self._enums:
            self._enums[key] = GraphQLEnumType(
                self._name(naming.pascal(name)), {label: label for label in column.labels}
            )
        return self._enums[key]

    def condition(self, column: LiveColumn) -> GraphQLInputObjectType | None:
        """What can be asked of a column; None: nothing."""
        operators = _operators(column)
        if not operators:
            return None
        scalar: GraphQLNamedInputType = self.scalar(column)
        key = (f"{scalar.name}{'List' if column.array else ''}", operators)
        if key not in self._conditions:
            self._conditions[key] = GraphQLInputObjectType(
                self._name(f"{key[0]}Condition"),
                {
                    operator: GraphQLInputField(
                        GraphQLList(scalar) if operator == "in" else scalar,
                        description=_meaning(operator, array=column.array),
                    )
                    for operator in operators
                },
            )
        return self._conditions[key]

    def _name(self, name: str) -> str:
        self._used.add(found := naming.free(name, self._used))
        return found

    def _reserve(self, table: str) -> str:
        """What the types of a table begin with."""
        base = name = naming.pascal(table)
        number = 1
        while any(f"{name}{suffix}" in self._used for suffix in _SUFFIXES):
            number += 1
            name = f"{base}_{number}"
        self._used.update(f"{name}{suffix}" for suffix in _SUFFIXES)
        return name


class _Table:
    """The types of one table."""

    def __init__(self, shared: _Schema, table: LiveTable, prefix: str):
        self._shared = shared
        self._table = table
        self._prefix = prefix
        columns = [column.name for column in table.columns]
        self._names = naming.unique(columns, naming.camel, taken=("nodeId",))
        node_id = {"nodeId": _node_id(table, lambda row: row)}
        self._row = GraphQLObjectType(
            prefix, {**self._columns(), **node_id}, description=table.comment
        )
        self._patch = GraphQLObjectType(
            f"{prefix}Patch", self._columns(), description="The columns that changed."
        )
        self._key = GraphQLObjectType(f"{prefix}Key", self._key_columns())
        self._condition = self._condition_type()

    def subscriptions(self, root: str) -> Fields:
        """The five fields."""
        key = {"key": GraphQLField(GraphQLNonNull(self._key), resolve=_whole)}
        row = {"row": GraphQLField(GraphQLNonNull(self._row), resolve=_part("row"))}
        names = GraphQLList(GraphQLNonNull(GraphQLString))
        patch = {
            "patch": GraphQLField(GraphQLNonNull(self._patch), resolve=_part("patch")),
            "changed": GraphQLField(
                GraphQLNonNull(names), resolve=self._changed, description=_CHANGED
            ),
        }
        entered = GraphQLField(
            GraphQLNonNull(GraphQLBoolean),
            resolve=lambda item, _info: item.change is Change.ENTERED,
            description="Whether it was there before and meets the condition only now.",
        )
        truncated = GraphQLField(
            GraphQLNonNull(GraphQLBoolean),
            resolve=lambda batch, _info: any(
                item.change is Change.TRUNCATED for item in batch.changes
            ),
            description="Whether all rows of the table are gone.",
        )
        anything = {
            "change": GraphQLField(GraphQLNonNull(CHANGE), resolve=lambda item, _: item.change),
            "key": GraphQLField(self._key, resolve=lambda item, _: item.key and item),
            "patch": GraphQLField(self._patch, resolve=_part("patch")),
            "changed": GraphQLField(names, resolve=self._changed, description=_CHANGED),
            "row": GraphQLField(self._row, resolve=_part("row")),
        }
        prefix = self._prefix
        update = GraphQLObjectType(f"{prefix}Update", {**key, **patch, **row, "entered": entered})
        deletion = GraphQLObjectType(f"{prefix}Deletion", {**key, **row})
        departure = GraphQLObjectType(f"{prefix}Departure", key)
        change = GraphQLObjectType(f"{prefix}Change", anything)
        more = {"truncated": truncated}
        return {
            f"{root}Created": self._field("Created", self._row, of=_rows),
            f"{root}Updated": self._field("Updated", update),
            f"{root}Deleted": self._field("Deleted", deletion, more=more, of=_keyed),
            f"{root}Left": self._field("Left", departure),
            f"{root}Changed": self._field("Changed", change),
        }

    def _field(
        self,
        name: str,
        item: GraphQLObjectType,
        *,
        more: Fields | None = None,
        of: Callable[[Any, Any], Any] = lambda batch, _info: batch.changes,
    ) -> GraphQLField:
        event_id = GraphQLField(
            GraphQLNonNull(GraphQLString),
            resolve=lambda batch, _info: batch.token,
            description="Given as `after`, a subscription goes on after this.",
        )
        items = GraphQLField(GraphQLNonNull(GraphQLList(GraphQLNonNull(item))), resolve=of)
        payload = GraphQLObjectType(
            f"{self._prefix}{name}Subscription",
            {"eventId": event_id, "items": items, **(more or {})},
        )
        arguments = {"after": GraphQLArgument(GraphQLString, description="An `eventId`.")}
        if self._condition is not None:
            arguments["condition"] = GraphQLArgument(
                self._condition, description="All of it holds for the rows that are told of."
            )
        subscribed = Subscribed(
            relation=self._table.relation,
            changes=None if name == "Changed" else frozenset({name.lower()}),
            columns={graphql: sql for sql, graphql in self._names.items()},
            by_patch=name == "Updated",
        )
        return GraphQLField(
            GraphQLNonNull(payload),
            arguments,
            subscribe=subscribe_to(subscribed),
            resolve=lambda batch, _info, **_arguments: batch,
            description=_DESCRIPTIONS[name],
        )

    def _changed(self, item: LiveChange, _info: Any) -> list[str] | None:
        return None if item.patch is None else [self._names[column] for column in item.patch]

    def _columns(self) -> Fields:
        return {
            self._names[column.name]: GraphQLField(
                self._type(column),
                resolve=_value(column.name, scalars.writer(column)),
                description=column.comment,
            )
            for column in self._table.columns
        }

    def _key_columns(self) -> Fields:
        keys = set(self._table.key_columns)
        columns: Fields = {
            self._names[column.name]: GraphQLField(
                GraphQLNonNull(self._type(column)),
                resolve=_key_value(column.name, scalars.writer(column)),
                description=column.comment,
            )
            for column in self._table.columns
            if column.name in keys
        }
        return {**columns, "nodeId": _node_id(self._table, lambda item: item.key)}

    def _condition_type(self) -> GraphQLInputObjectType | None:
        found = {
            self._names[column.name]: GraphQLInputField(condition, description=column.comment)
            for column in self._table.columns
            if (condition := self._shared.condition(column)) is not None
        }
        return GraphQLInputObjectType(f"{self._prefix}Condition", found) if found else None

    def _type(self, column: LiveColumn) -> GraphQLNullableOutputType:
        scalar: GraphQLNullableOutputType = self._shared.scalar(column)
        return GraphQLList(scalar) if column.array else scalar


_CHANGED = "The columns that changed, by their names under `patch`: null there was set to NULL."
_DESCRIPTIONS = {
    "Created": "Rows that were inserted.",
    "Updated": "Rows that were updated; of the columns under `patch` at least one changed.",
    "Deleted": "Rows that were deleted.",
    "Left": "Rows that are there, and meet the condition or the policies no longer.",
    "Changed": "All of it, in the order in which it happened.",
}


def node_id(table: LiveTable, row: dict[str, Any]) -> str:
    """The table and the key as one text."""
    text = written([table.name, *(row.get(column) for column in table.key_columns)])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _node_id(table: LiveTable, row_of: Callable[[Any], dict[str, Any]]) -> GraphQLField:
    return GraphQLField(
        GraphQLNonNull(GraphQLID),
        resolve=lambda item, _info: node_id(table, row_of(item)),
        description="The table and the key as one text.",
    )


def _value(column: str, write: Callable[[Any], Any]) -> Callable[[dict[str, Any], Any], Any]:
    return lambda row, _info: write(row.get(column))


def _key_value(column: str, write: Callable[[Any], Any]) -> Callable[[LiveChange, Any], Any]:
    return lambda item, _info: write((item.key or {}).get(column))


def _part(name: str) -> Callable[[LiveChange, Any], Any]:
    return lambda item, _info: getattr(item, name)


def _whole(item: LiveChange, _info: Any) -> LiveChange:
    return item


def _rows(batch: Any, _info: Any) -> list[dict[str, Any]]:
    return [item.row for item in batch.changes]


def _keyed(batch: Any, _info: Any) -> list[LiveChange]:
    return [item for item in batch.changes if item.key is not None]


def _operators(column: LiveColumn) -> tuple[str, ...]:
    """As the SQL function ``_live_operators``."""
    if column.kind is Kind.OTHER:
        return ()
    if column.kind is Kind.JSON:
        return ("eq",)
    ordered = () if column.array or column.kind is Kind.BOOLEAN else _ORDER
    return ("eq", "in", *ordered, *(("icontains",) if column.kind is Kind.TEXT else ()))


def _meaning(operator: str, *, array: bool) -> str | None:
    if array:
        return {
            "eq": "One of its elements; null: it is null.",
            "in": "At least one of these is among its elements.",
            "icontains": "One of its elements contains this, in upper or lower case.",
        }[operator]
    return {
        "eq": "It is this; null: it is null.",
        "in": "It is one of these.",
        "icontains": "It contains this, in upper or lower case.",
    }.get(operator)
