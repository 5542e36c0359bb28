"""What a query asks for, and how much of it: through fragments and directives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLIncludeDirective,
    GraphQLSkipDirective,
    InlineFragmentNode,
    OperationDefinitionNode,
    get_directive_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphql import GraphQLResolveInfo, SelectionSetNode


def selected(info: GraphQLResolveInfo[Any], *path: str) -> set[str]:
    """The names of the fields that are selected under a path below the field of ``info``."""
    nodes: Sequence[FieldNode] = info.field_nodes
    for name in path:
        nodes = [node for node in _fields(info, nodes) if node.name.value == name]
    return {node.name.value for node in _fields(info, nodes)}


def _fields(info: GraphQLResolveInfo[Any], nodes: Sequence[FieldNode]) -> Iterator[FieldNode]:
    for node in nodes:
        if node.selection_set is not None:
            yield from _in_set(info, node.selection_set)


def _in_set(info: GraphQLResolveInfo[Any], chosen: SelectionSetNode) -> Iterator[FieldNode]:
    for node in chosen.selections:
        if not _included(info, node):
            continue
        if isinstance(node, FieldNode):
            yield node
        elif isinstance(node, InlineFragmentNode):
            yield from _in_set(info, node.selection_set)
        elif isinstance(node, FragmentSpreadNode):
            yield from _in_set(info, info.fragments[node.name.value].selection_set)


def _included(info: GraphQLResolveInfo[Any], node: Any) -> bool:
    skip = get_directive_values(GraphQLSkipDirective, node, info.variable_values)
    include = get_directive_values(GraphQLIncludeDirective, node, info.variable_values)
    return not (skip and skip["if"]) and not (include and not include["if"])


@dataclass(frozen=True, slots=True)
class Size:
    """How much a document asks for, with its fragments put where they are spread."""

    depth: int = 0
    """How many fields lie inside each other."""
    copies: int = 0
    """Fields under another name, fields that stand there again, and fragments.

    What an answer has more than once, and what is slow to check, comes by these alone.
    """

    def beside(self, other: Size) -> Size:
        return Size(max(self.depth, other.depth), self.copies + other.copies)


def measure(document: DocumentNode) -> Size:
    """The size of a document, which need not be valid."""
    return _Measure(document).size()


class _Measure:
    """Each fragment is measured once; one inside itself, which is not valid, counts as nothing."""

    def __init__(self, document: DocumentNode):
        self._document = document
        self._known: dict[str, Size] = {}
        self._fragments = {
            node.name.value: node.selection_set
            for node in document.definitions
            if isinstance(node, FragmentDefinitionNode)
        }

    def size(self) -> Size:
        total = Size()
        for node in self._document.definitions:
            if isinstance(node, OperationDefinitionNode):
                total = total.beside(self._set(node.selection_set))
        for name in self._fragments.keys() - self._known:  # used by nobody, and yet checked
            total = total.beside(self._fragment(name))
        return total

    def _set(self, chosen: SelectionSetNode | None) -> Size:
        total, seen = Size(), set[str]()
        for node in chosen.selections if chosen is not None else ():
            if isinstance(node, FieldNode):
                again = node.alias is not None or node.name.value in seen
                seen.add(node.name.value)
                below = self._set(node.selection_set)
                found = Size(below.depth + 1, below.copies + again)
            elif isinstance(node, FragmentSpreadNode):
                below = self._fragment(node.name.value)
                found = Size(below.depth, below.copies + 1)
            else:
                assert isinstance(node, InlineFragmentNode)
                below = self._set(node.selection_set)
                found = Size(below.depth, below.copies + 1)
            total = total.beside(found)
        return total

    def _fragment(self, name: str) -> Size:
        if name not in self._known:
            self._known[name] = Size()
            self._known[name] = self._set(self._fragments.get(name))
        return self._known[name]
