"""Conditions of GraphQL in their short form: a value in place of operators means ``eq``."""

from __future__ import annotations

from typing import Any

from graphql import (
    ArgumentNode,
    BooleanValueNode,
    DocumentNode,
    EnumValueNode,
    FloatValueNode,
    IntValueNode,
    NameNode,
    ObjectFieldNode,
    ObjectValueNode,
    StringValueNode,
    Visitor,
    visit,
)

_VALUES = (StringValueNode, IntValueNode, FloatValueNode, BooleanValueNode, EnumValueNode)


def spelled_out(document: DocumentNode) -> DocumentNode:
    """Rewrite ``condition: {orgId: "a"}`` as ``condition: {orgId: {eq: "a"}}``."""
    written: DocumentNode = visit(document, _Conditions())
    return written


class _Conditions(Visitor):
    @staticmethod
    def enter_argument(node: ArgumentNode, *_: Any) -> ArgumentNode | None:
        if node.name.value != "condition" or not isinstance(node.value, ObjectValueNode):
            return None
        fields = tuple(map(_field, node.value.fields))
        condition = ObjectValueNode(fields=fields, loc=node.value.loc)
        return ArgumentNode(name=node.name, value=condition, loc=node.loc)


def _field(field: ObjectFieldNode) -> ObjectFieldNode:
    if not isinstance(field.value, _VALUES):
        return field
    equal = ObjectFieldNode(name=NameNode(value="eq"), value=field.value, loc=field.value.loc)
    return ObjectFieldNode(
        name=field.name,
        value=ObjectValueNode(fields=(equal,), loc=field.value.loc),
        loc=field.loc,
    )
