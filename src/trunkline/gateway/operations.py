"""One operation of GraphQL: read, checked against the schema and the limits, and run."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from graphql import (
    DocumentNode,
    ExecutionResult,
    FragmentDefinitionNode,
    GraphQLError,
    GraphQLSchema,
    OperationType,
    execute,
    get_operation_ast,
    parse,
    subscribe,
    validate,
)

from trunkline.core.errors import BadRequest, Forbidden, TrunklineError
from trunkline.gateway.problems import formatted
from trunkline.gateway.reading import read_json
from trunkline.gateway.selection import measure
from trunkline.gateway.shorthand import spelled_out

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from trunkline.gateway.subscribing import Asking

MOST_TOKENS = 5_000
MOST_COPIES = 60  # to check them takes the square of it
MOST_FRAGMENTS = 50
DEEPEST = 20  # what asks for the whole schema is 13 deep


@dataclass(frozen=True, slots=True)
class Operation:
    """What a client sent."""

    query: str
    variables: dict[str, Any] | None = None
    name: str | None = None

    @classmethod
    def parse(cls, given: Any) -> Operation:
        """From the JSON object of a request; raises `BadRequest`."""
        if not isinstance(given, dict):
            raise BadRequest("a request of GraphQL is a JSON object.", hint=_EXPECTED)
        query, name = given.get("query"), given.get("operationName")
        variables = given.get("variables")
        if not isinstance(query, str) or not query.strip():
            raise BadRequest("the request has no query.", hint=_EXPECTED)
        if not isinstance(variables, dict | None) or not isinstance(name, str | None):
            raise BadRequest("variables is an object, operationName a text.", hint=_EXPECTED)
        return cls(query, variables, name)

    @classmethod
    def from_query(cls, given: Mapping[str, str]) -> Operation:
        """From the query string of a GET."""
        variables = read_json(given["variables"], "variables") if "variables" in given else None
        return cls.parse(
            {
                "query": given.get("query"),
                "variables": variables,
                "operationName": given.get("operationName"),
            }
        )


_EXPECTED = 'Expected: {"query": "...", "variables": {...}, "operationName": "..."}.'


class Refused(Exception):
    """An operation that is not run, with the errors of GraphQL."""

    def __init__(self, errors: list[GraphQLError]):
        super().__init__(errors[0].message)
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Prepared:
    """An operation that fits a schema."""

    schema: GraphQLSchema
    document: DocumentNode
    operation: Operation
    subscribes: bool


async def prepare(asking: Asking, operation: Operation) -> Prepared:
    """Read and check an operation; raises `Refused`."""
    document = _read(operation.query)
    catalogue, role = asking.gateway.catalogue, asking.identity.role
    schema = await catalogue.schema(role)
    errors = validate(schema, document)
    if errors:  # perhaps of a table that became live just now
        newest = await catalogue.schema(role, again=True)
        errors = errors if newest is schema else validate(newest, document)
        schema = newest
    if errors and not validate(await catalogue.schema(None), document):
        raise _refused(_hidden(role))
    if errors:
        raise Refused(errors)
    chosen = get_operation_ast(document, operation.name)
    if chosen is None:
        raise _refused("operationName names no operation, or several could be meant.")
    return Prepared(schema, document, operation, chosen.operation is OperationType.SUBSCRIPTION)


def _read(query: str) -> DocumentNode:
    """Parse a query, and measure it before anything else looks at it."""
    try:
        document = parse(query, max_tokens=MOST_TOKENS)
    except GraphQLError as error:
        raise Refused([error]) from None
    fragments = sum(isinstance(node, FragmentDefinitionNode) for node in document.definitions)
    if fragments > MOST_FRAGMENTS:
        raise _refused(f"the query has {fragments} fragments, {MOST_FRAGMENTS} are allowed.")
    size = measure(document)
    if size.depth > DEEPEST:
        raise _refused(f"the query is {size.depth} fields deep, {DEEPEST} are allowed.")
    if size.copies > MOST_COPIES:
        raise _refused(
            f"the query has {size.copies} aliases, repeated fields and fragments, "
            f"{MOST_COPIES} are allowed."
        )
    return spelled_out(document)


def _refused(why: str | TrunklineError) -> Refused:
    cause = None if isinstance(why, str) else why
    return Refused([GraphQLError(str(why), original_error=cause)])


def _hidden(role: str | None) -> Forbidden:
    """The error for an operation over tables that are not in the schema of the role."""
    return Forbidden(
        f'"{role}" may not select from the table of this operation.',
        hint=f'Have its owner run: grant select on <table> to "{role}";',
        details={"role": role},
    )


async def run(asking: Asking, prepared: Prepared) -> ExecutionResult:
    """Run a query."""
    answer = execute(
        prepared.schema,
        prepared.document,
        context_value=asking,
        variable_values=prepared.operation.variables,
        operation_name=prepared.operation.name,
    )
    return await answer if inspect.isawaitable(answer) else answer


async def begin(asking: Asking, prepared: Prepared) -> AsyncGenerator[ExecutionResult, None]:
    """Begin a subscription; raises `Refused`. Whoever has it closes it."""
    answer = subscribe(
        prepared.schema,
        prepared.document,
        context_value=asking,
        variable_values=prepared.operation.variables,
        operation_name=prepared.operation.name,
    )
    results = await answer if inspect.isawaitable(answer) else answer
    if isinstance(results, ExecutionResult):
        raise Refused(results.errors or [GraphQLError("the subscription failed.")])
    return cast("AsyncGenerator[ExecutionResult, None]", results)


def as_json(result: ExecutionResult) -> dict[str, Any]:
    """A result as it is sent."""
    told: dict[str, Any] = {}
    if result.errors:
        told["errors"] = [formatted(error) for error in result.errors]
    return {**told, "data": result.data}


def failures(error: Exception) -> list[dict[str, Any]]:
    """What ended a subscription, or refused it, as errors of GraphQL."""
    if isinstance(error, Refused):
        return [formatted(each) for each in error.errors]
    return [formatted(GraphQLError(str(error), original_error=error))]
