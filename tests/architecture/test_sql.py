"""What every SQL file and every function of the schema keeps to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from tests.fixtures.asking import column
from tests.fixtures.postgres import new_database

from trunkline.core import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.fixtures.postgres import AnyServer

    from trunkline.core.migrate import Step

Session = psycopg.Connection[Any]

FUNCTION_FILES = [step for step in migrate.steps() if step.repeatable]
CREATED = re.compile(r"^create or replace (?:function|procedure) trunkline\.(\w+)\s*\(", re.M)
TEXT = re.compile(r"/\*.*?\*/|--[^\n]*|\$regex\$.*?\$regex\$|\bE'(?:[^'\\]|\\.|'')*'|'[^']*'", re.S)
OF_THE_OWNER = {"roles_grant"}  # grants what others may call: nobody is granted this one


@pytest.fixture(scope="module")
def session(server: AnyServer, template: str) -> Iterator[Session]:
    with (
        new_database(server, template=template) as name,
        psycopg.connect(server.dsn(name), autocommit=True) as opened,
    ):
        yield opened


@pytest.mark.parametrize(
    "step", FUNCTION_FILES, ids=lambda step: f"{step.capability}-{step.file.split('/')[1]}"
)
def test_a_function_file_holds_the_one_function_of_its_name_and_says_what_it_does(
    step: Step,
) -> None:
    name = step.file.removeprefix("functions/").removesuffix(".sql")
    assert CREATED.findall(step.text) == [name]
    assert step.text.startswith("/* ")
    assert "create or replace view" not in step.text
    assert name == name.lower()


def test_no_text_depends_on_how_a_session_reads_backslashes() -> None:
    """With standard_conforming_strings = off, '\\d' is 'd': any caller may set that."""
    loose = [
        (step.file, text)
        for step in migrate.steps()
        for text in TEXT.findall(step.text)
        if text.startswith("'") and "\\" in text
    ]
    assert loose == []


def test_every_function_comes_from_a_file(session: Session) -> None:
    files = {step.file.removeprefix("functions/").removesuffix(".sql") for step in FUNCTION_FILES}
    made = column(
        session, "select proname from pg_proc where pronamespace = 'trunkline'::regnamespace"
    )
    of_sequences = {
        f"_{name}_new" for name in column(session, "select source from trunkline.sequence")
    }
    assert sorted(made) == sorted(files | of_sequences)


def test_every_public_function_has_a_comment(session: Session) -> None:
    silent = column(
        session,
        "select proname from pg_proc where pronamespace = 'trunkline'::regnamespace"
        " and proname !~ '^_' and obj_description(oid, 'pg_proc') is null",
    )
    assert silent == []


def test_every_public_function_says_who_may_call_it(session: Session) -> None:
    undeclared = column(
        session,
        "select proname from pg_proc p where pronamespace = 'trunkline'::regnamespace"
        " and proname !~ '^_' and not exists (select from trunkline.access a"
        " where to_regprocedure('trunkline.' || a.signature) = p.oid)",
    )
    assert set(undeclared) == OF_THE_OWNER


def test_every_definer_pins_its_search_path(session: Session) -> None:
    loose = column(
        session,
        "select proname from pg_proc where pronamespace = 'trunkline'::regnamespace and prosecdef"
        " and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false)",
    )
    assert loose == []


def test_internal_functions_that_anybody_may_call_are_definers_or_nothing(
    session: Session,
) -> None:
    """PUBLIC may call only what runs with the rights of the owner and checks for itself."""
    open_ones = column(
        session,
        "select proname from pg_proc where pronamespace = 'trunkline'::regnamespace"
        " and has_function_privilege('public', oid, 'execute') and not prosecdef",
    )
    assert open_ones == []


def test_no_function_of_one_argument_is_named_like_the_array_of_a_table(
    session: Session,
) -> None:
    """f('x') would be a cast to the array type that Postgres makes for every table."""
    casts = column(
        session,
        "select proname from pg_proc p join pg_type t on t.typname = p.proname"
        " and t.typnamespace = p.pronamespace and t.typrelid = 0"
        " where p.pronamespace = 'trunkline'::regnamespace"
        " and p.pronargs - p.pronargdefaults <= 1 and p.pronargs >= 1",
    )
    assert casts == []


def test_every_duty_is_a_function_that_says_whether_there_is_more(session: Session) -> None:
    duties = column(session, "select duty from trunkline.duty")
    fit = column(
        session,
        "select proname from pg_proc where pronamespace = 'trunkline'::regnamespace"
        " and pronargs = 0 and prorettype = 'boolean'::regtype and prosecdef",
    )
    assert set(duties) <= set(fit)


def test_every_table_says_what_it_holds(session: Session) -> None:
    silent = column(
        session,
        "select relname from pg_class where relnamespace = 'trunkline'::regnamespace"
        " and relkind in ('r', 'p') and not relispartition"
        " and obj_description(oid, 'pg_class') is null",
    )
    assert silent == []


def test_everything_is_logged(session: Session) -> None:
    """Nothing acknowledged may live in a table that a crash empties."""
    unlogged = column(
        session,
        "select relname from pg_class where relnamespace = 'trunkline'::regnamespace"
        " and relpersistence <> 'p'",
    )
    assert unlogged == []


def test_sequences_hand_out_one_number_at_a_time(session: Session) -> None:
    """Order by seq is causal order only without a cache."""
    cached = column(
        session,
        "select sequencename from pg_sequences where schemaname = 'trunkline' and cache_size <> 1",
    )
    assert cached == []


def test_no_lock_outlasts_its_transaction(session: Session) -> None:
    """One that belongs to a session would stay with a pooled connection."""
    source = "regexp_replace(prosrc, '/\\*.*?\\*/|--[^\\n]*', '', 'g')"
    locking = column(
        session,
        "select proname from pg_proc where pronamespace = 'trunkline'::regnamespace"
        f" and {source} ~ 'advisory_(un)?lock'",
    )
    assert locking == []


def test_core_and_log_raise_errors_themselves(session: Session) -> None:
    """A call of _raise() would show the text of its statement in the CONTEXT of each error."""
    raising = column(
        session,
        "select proname from pg_proc where pronamespace = 'trunkline'::regnamespace"
        " and prosrc ~ 'perform trunkline._raise\\('"
        " and proname ~ '^_?(log|lease|owner|config|ring)_'",
    )
    assert raising == []
