"""Find and choose compatibility schemas: statements of other systems over our functions.

Each is one file ``compat/sql/<schema>.sql``, installed on request and replaced whenever its text
changes. A schema that was dropped by hand is not put back: the user removed it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from psycopg import sql

from trunkline.core.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg

SCHEMAS = ("pgmb", "tube", "postgraphile_meta", "fancy_subscriptions", "kv", "kv_config")
_BESIDE = {"fancy_subscriptions": ("postgraphile_meta",), "kv": ("kv_config",)}
_MARK = "Trunkline compatibility: "
# A schema of another owner is not ours, whatever its comment says: installing runs what is in it.
_OURS = (
    "select n.nspname from pg_namespace n join pg_namespace t on t.nspname = 'trunkline'"
    " where n.nspowner = t.nspowner"
    f" and starts_with(obj_description(n.oid, 'pg_namespace'), '{_MARK}')"
)


@dataclass(frozen=True, slots=True)
class Schemas:
    """The compatibility schemas of a database: those that are there and those to install."""

    present: frozenset[str]
    wanted: tuple[str, ...]


def schemas(connection: psycopg.Connection[Any], asked: Iterable[str] = ()) -> Schemas:
    """Read which schemas are there; refuse an unknown name."""
    chosen = check(asked)
    ours = {name for (name,) in connection.execute(_OURS)}
    present = frozenset(name for name in SCHEMAS if name in ours)
    wanted = tuple(name for name in SCHEMAS if name in present or name in chosen)
    return Schemas(present, wanted)


def check(asked: Iterable[str]) -> Sequence[str]:
    """Refuse names that are no compatibility schema."""
    if isinstance(asked, str):
        raise BadRequest(f'compat is a list of names, got the text "{asked}".')
    chosen = list(asked)
    for name in chosen:
        if name not in SCHEMAS:
            raise BadRequest(
                f'there is no compatibility schema "{name}".',
                hint=f"There are: {', '.join(SCHEMAS)}.",
            )
    return [*chosen, *(other for name in chosen for other in _BESIDE.get(name, ()))]


def text(name: str) -> str:
    """Return the SQL of one schema, with its mark and the rights to use it.

    It raises TL409 where a schema of this name belongs to another owner or holds something else.
    """
    body = (files("trunkline.compat") / "sql" / f"{name}.sql").read_text("utf-8")
    return (
        "do $compat$ begin\n"
        f"  if to_regnamespace('{name}') is not null and '{name}' not in ({_OURS}) then\n"
        f"    perform trunkline._raise('TL409', 'the schema \"{name}\" of this database holds"
        " something else.', 'Rename it, or install without this compatibility schema.');\n"
        "  end if;\nend $compat$;\n"
        f"create schema if not exists {name};\n{body}\n"
        f"comment on schema {name} is '{_MARK}see docs/how-to/compatibility.md';\n"
        f"grant usage on schema {name} to public;\n"
        f"grant execute on all functions in schema {name} to public;"
    )


def drop(connection: psycopg.Connection[Any]) -> None:
    """Drop every compatibility schema of the database."""
    for name in sorted(schemas(connection).present):
        connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))
