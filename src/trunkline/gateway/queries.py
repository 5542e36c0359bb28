"""The queries of the GraphQL schema: which tables are live, and where events stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphql import (
    GraphQLBoolean,
    GraphQLField,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLString,
)

from trunkline.broker.stream import Place

if TYPE_CHECKING:
    from graphql import GraphQLResolveInfo

    from trunkline.gateway.subscribing import Asking
    from trunkline.live.models import LiveTable


async def _tables(_root: Any, info: GraphQLResolveInfo[Asking]) -> list[LiveTable]:
    asking = info.context
    return await asking.gateway.catalogue.tables(asking.identity.role)


async def _present(_root: Any, info: GraphQLResolveInfo[Asking]) -> str:
    ends = await info.context.gateway.platform.broker.ends()
    return Place(ends.incarnation, ends.last_one).token


def query() -> GraphQLObjectType:
    """The type of queries."""
    text, texts = GraphQLNonNull(GraphQLString), GraphQLNonNull(GraphQLList(GraphQLString))
    column = GraphQLObjectType(
        "LiveColumn",
        {
            "name": GraphQLField(text),
            "type": GraphQLField(text),
            "nullable": GraphQLField(GraphQLNonNull(GraphQLBoolean)),
            "comment": GraphQLField(GraphQLString),
        },
    )
    table = GraphQLObjectType(
        "LiveTable",
        {
            "name": GraphQLField(text),
            "relation": GraphQLField(text),
            "key": GraphQLField(texts, resolve=lambda table, _info: table.key_columns),
            "columns": GraphQLField(GraphQLNonNull(GraphQLList(GraphQLNonNull(column)))),
        },
    )
    return GraphQLObjectType(
        "Query",
        {
            "live": GraphQLField(
                GraphQLNonNull(GraphQLList(GraphQLNonNull(table))),
                resolve=_tables,
                description="The live tables that the role of the token may select from.",
            ),
            "eventId": GraphQLField(
                text,
                resolve=_present,
                description="Where events stand now. A client that asks for this first, loads rows,"
                " and then subscribes with it as `after`, misses nothing.",
            ),
        },
    )
