"""What the cells stand on: our side of the comparison, with subscriptions and events to match."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.rows import scalar_row

from trunkline.broker import calls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trunkline.log.bench.lab import Lab

TABLES = r"^(event|tick|delivery|cursor)_\d+$"


class Ours:
    """The broker, as SQL: what its services call."""

    def __init__(self, lab: Lab, connection: psycopg.Connection[Any]):
        self._lab = lab
        self.connection = connection
        self.groups: list[str] = []

    def ask(self, question: str, *values: Any) -> Any:
        """The first column of the first row."""
        with self.connection.cursor(row_factory=scalar_row) as cursor:
            return cursor.execute(question.encode(), values, prepare=True).fetchone()

    def subscribe(self, name: str, condition: str, params: str, n: int) -> str:
        """Subscriptions of a new group: ``params`` is an expression over the number g."""
        group = f"{self._lab.prefix}.{name}"
        self.groups.append(group)
        self.connection.execute(
            sql.SQL(
                "select count(trunkline.broker_subscribe({group}, {condition}, {params}))"
                " from generate_series(1, {n}) g"
            ).format(group=group, condition=condition, params=sql.SQL(params), n=n)
        )
        self.connection.execute("analyze trunkline.broker_subscription")
        return group

    def publish(self, rows: str, n: int) -> None:
        """Insert events in one statement: ``rows`` selects topic and payload over the number g."""
        self.connection.execute(
            sql.SQL(
                "insert into trunkline.event (topic, payload) select {rows}"
                " from generate_series(1, {n}) g"
            ).format(rows=sql.SQL(rows), n=n),
            prepare=True,
        )

    def tick(self) -> int:
        """Number what was committed."""
        return int(self.ask("select trunkline.broker_tick()"))

    def match(self) -> int:
        """One round of matching; how many events."""
        return int(self.ask("select trunkline.broker_match()"))

    def settle(self) -> None:
        """Number and match whatever there is, so that a turn begins with nothing."""
        self.tick()
        while self.match():
            pass

    def delivered(self) -> int:
        """The number of the last delivery."""
        return self._lab.db.run(calls.ends(self.groups[0])).last_one


@contextmanager
def ours(lab: Lab) -> Iterator[Ours]:
    """Our side for the length of a block; its groups go at the end."""
    with psycopg.connect(lab.dsn, autocommit=True) as connection:
        made = Ours(lab, connection)
        made.settle()
        try:
            yield made
        finally:
            for group in made.groups:
                connection.execute("select trunkline.broker_group_delete(%s)", [group])
