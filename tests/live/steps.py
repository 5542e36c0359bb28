"""Short forms for tests of live tables."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from tests.broker.steps import head, tick
from tests.fixtures.asking import ask, call, called

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.asking import Session

SWEEP = """
delete from trunkline.live_table;
delete from trunkline.live_role;
delete from trunkline.live_process;
"""

CONTACTS = "create table contacts (id bigint primary key, org_id int, name text, tags text[])"


def watch(session: Session, relation: str = "contacts", **given: Any) -> None:
    call(session, "live_watch", relation=relation, **given)


def contacts(session: Session) -> None:
    """A live table of contacts."""
    session.execute(CONTACTS)
    watch(session)


def lease(session: Session) -> UUID:
    """A process that lives."""
    process = uuid4()
    session.execute("select trunkline.lease_renew(%s, 'test')", [process])
    return process


def subscribe(
    session: Session, condition: Any = None, relation: str = "contacts", **given: Any
) -> int:
    """Subscribe; the number of the subscription."""
    rows = call(
        session,
        "live_subscribe",
        relation=relation,
        condition=None if condition is None else json.dumps(condition),
        **given,
    )
    return int(rows[0][0])


@dataclass
class Reading:
    """Reads what is new for one subscription: operation, and whether it holds before and after."""

    session: Session
    subscription: int
    up_to: int = field(init=False)

    def __post_init__(self) -> None:
        tick(self.session)
        self.up_to = head(self.session)

    def rows(self) -> list[dict[str, Any]]:
        tick(self.session)
        found = called(
            self.session, "live_read", after=self.up_to, subscription=self.subscription
        ).fetchall()
        self.up_to = head(self.session)
        return [row for row in found if row["operation"] or row["error"]]

    def new(self) -> list[tuple[str, bool, bool]]:
        return [
            (row["operation"], row["matched_old"][0], row["matched_new"][0]) for row in self.rows()
        ]

    def keys(self) -> list[Any]:
        """The ids of new rows for which the condition holds."""
        return [row["new_row"]["id"] for row in self.rows() if row["matched_new"][0]]


@contextmanager
def app_role(session: Session, *grants: str) -> Iterator[str]:
    """A role that cannot log in, with grants such as ``select on contacts``."""
    name = f"app_{uuid4().hex}"
    session.execute(f"create role {name}")
    for grant in grants:
        session.execute(f"grant {grant} to {name}")
    try:
        yield name
    finally:
        session.execute("reset role")
        session.execute(f"delete from trunkline.live_role where role = '{name}'")
        session.execute(f"drop owned by {name}; drop role {name}")


def visible(
    session: Session, role: str, images: list[dict[str, Any] | None], **settings: str
) -> list[bool]:
    """Which rows of contacts a role may see."""
    found: list[bool] = ask(
        session,
        "select trunkline.live_visible('contacts', %s::name, %s, %s::jsonb[])",
        [
            role,
            json.dumps({name.replace("__", "."): value for name, value in settings.items()}),
            [None if image is None else json.dumps(image) for image in images],
        ],
    )
    return found
