"""From events and conditions to what each subscription is told: rights and policies decide.

Conditions were asked by ``live_read``. What a role may select, and which rows the policies of the
table let it see, before and after, is asked here: once for all subscriptions of the same role with
the same settings, and with one call for many such settings. Who fails, because a policy does or a
row cannot be read, fails alone. Columns may get other names after rows were read: these are lost.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from trunkline.broker.stream import Place
from trunkline.core import telemetry
from trunkline.core.errors import (
    Conflict,
    DatabaseError,
    Forbidden,
    Invalid,
    TrunklineError,
    Unavailable,
    is_clash,
    is_shortage,
)
from trunkline.live import calls
from trunkline.live.models import Change, LiveChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trunkline.core.db import AsyncDb
    from trunkline.live.models import LiveRead, Visible

logger = telemetry.get_logger(__name__)

Row = dict[str, Any]
Settings = tuple[tuple[str, str], ...]

MOST_AT_ONCE = 100  # settings that are judged with one call
_CALLS_AT_ONCE = 2  # for one table: slow policies of it must not take all connections
_TOOK_TOO_LONG = "57014"
_MEND = (
    "Have its owner mend the policy: the log of the gateway has the error. Then subscribe again."
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a subscription asks for, of which table, and for whom."""

    relation: int
    key_columns: tuple[str, ...]
    changes: frozenset[str]
    columns: frozenset[str] | None
    condition_columns: frozenset[str]
    role: str
    settings: Settings

    def hidden(self, allowed: Iterable[str]) -> set[str]:
        """Columns by which it is told of a row, and which its role may not select."""
        needed = self.condition_columns.union(self.key_columns, self.columns or ())
        return set(needed.difference(allowed))


@dataclass(slots=True)
class Told:
    """What each subscription is told, which fail, and which have to load anew, and why."""

    changes: dict[int, list[LiveChange]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    """The characters of the rows of these changes."""
    failures: dict[int, TrunklineError] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Match:
    """A condition that holds for the row of an event, before or after."""

    event: _Event
    subscription: int
    wanted: Wanted
    held: bool
    holds: bool


class _Event:
    """An event and its rows, read when somebody asks for them."""

    __slots__ = ("_changes", "_incarnation", "_rows", "read")

    def __init__(self, read: LiveRead, incarnation: int):
        self.read = read
        self._incarnation = incarnation
        self._rows: tuple[Row | None, Row | None] | None = None
        self._changes: dict[tuple[Change, str], LiveChange] = {}

    @property
    def images(self) -> list[str]:
        """The row before and after, as far as there is one, as the server wrote it."""
        return [row for row in (self.read.old_row, self.read.new_row) if row is not None]

    @property
    def rows(self) -> tuple[Row | None, Row | None]:
        """The row before and after."""
        if self._rows is None:
            self._rows = (_row(self.read.old_row), _row(self.read.new_row))
        return self._rows

    def change(
        self, kind: Change, role: str, keys: Sequence[str], allowed: Sequence[str]
    ) -> LiveChange:
        """What is told to a role; all of that role are told by the same."""
        found = self._changes.get((kind, role))
        if found is None:
            found = self._changes[kind, role] = self._make(kind, keys, allowed)
        return found

    def _make(self, kind: Change, keys: Sequence[str], allowed: Sequence[str]) -> LiveChange:
        before, after = self.rows
        assert self.read.event_id is not None
        assert self.read.at is not None
        known = before or after
        shown = before if kind is Change.DELETED else after
        return LiveChange(
            token=Place(self._incarnation, self.read.up_to).token,
            change=kind,
            event_id=self.read.event_id,
            key=None if known is None else {name: known.get(name) for name in keys},
            row=None if shown is None or kind is Change.LEFT else _only(shown, allowed),
            patch=_only(self.changed(), allowed)
            if kind in {Change.UPDATED, Change.ENTERED}
            else None,
            at=self.read.at,
        )

    def changed(self) -> Row:
        """Of an update the columns that changed, as they are now."""
        before, after = self.rows
        assert before is not None
        assert after is not None
        return {name: value for name, value in after.items() if _differ(before.get(name), value)}


class Judge:
    """Asks for rights and policies, and says what is told to whom."""

    def __init__(self, db: AsyncDb):
        self._db = db
        self._turns: dict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(_CALLS_AT_ONCE)
        )

    async def tell(
        self, read: Iterable[LiveRead], wanted: Mapping[int, Wanted], *, incarnation: int
    ) -> Told:
        """What comes of events for these subscriptions; `Unavailable` as it comes."""
        told = Told()
        groups: dict[tuple[int, str], list[_Match]] = {}
        for row in read:
            if row.error is not None:
                _note_error(row, told)
                continue
            for match in _matches(_Event(row, incarnation), wanted):
                assert row.relation is not None
                groups.setdefault((row.relation, match.wanted.role), []).append(match)
        for (relation, role), matches in groups.items():
            await self._tell_role(str(relation), role, matches, told)
        return told

    async def _tell_role(self, relation: str, role: str, matches: list[_Match], told: Told) -> None:
        asked = calls.access(relation, role, oldest=_oldest(matches))
        try:
            async with self._turns[relation]:
                access = await self._db.run(asked)
        except Unavailable:
            raise
        except TrunklineError as error:
            _fail(matches, error, told)
            return
        allowed = access.columns
        for match in matches:
            if hidden := match.wanted.hidden(allowed):
                _fail([match], _may_not(role, min(hidden)), told)
        if access.guarded:
            await self._tell_guarded(relation, role, matches, allowed, told)
        else:
            _tell(matches, None, allowed, told)

    async def _tell_guarded(
        self, relation: str, role: str, matches: list[_Match], allowed: Sequence[str], told: Told
    ) -> None:
        waiting = list(_by_settings(matches).items())
        most = MOST_AT_ONCE
        while waiting:
            some = waiting[:most]
            try:
                answers = await self._visible(relation, role, some)
            except DatabaseError as error:
                if error.sqlstate == _TOOK_TOO_LONG and len(some) > 1:
                    most = len(some) // 2
                    continue  # one of them may take its time, the others need not wait for it
                answers = [_of_policy(error)] * len(some)
            for (_, few), answer in zip(some, answers, strict=False):
                if isinstance(answer, TrunklineError):
                    _fail(few, answer, told)
                else:
                    _tell(few, answer, allowed, told)
            waiting = waiting[len(answers) :]
            most = min(most * 2, MOST_AT_ONCE)

    async def _visible(
        self, relation: str, role: str, groups: Sequence[tuple[Settings, list[_Match]]]
    ) -> list[dict[str, bool] | TrunklineError]:
        """Which rows, as JSON, the role may see with each of some settings; maybe of fewer."""
        places: dict[str, int] = {}
        numbers = [
            sorted(
                {
                    places.setdefault(image, len(places) + 1)
                    for match in matches
                    for image in match.event.images
                }
            )
            for _, matches in groups
        ]
        images = list(places)
        asked = calls.visible_many(
            relation,
            role,
            [dict(settings) for settings, _ in groups],
            images,
            numbers,
            oldest=min(_oldest(matches) for _, matches in groups),
        )
        try:
            async with self._turns[relation], self._db.transaction() as connection:
                await self._db.run(calls.hurry(), on=connection)
                answers = await self._db.run(asked, on=connection)
        except (Unavailable, DatabaseError):
            raise
        except TrunklineError as error:  # of the table and the role, whatever the settings
            return [error] * len(groups)
        return [
            _answer(answer, [images[number - 1] for number in some])
            for answer, some in zip(answers, numbers, strict=False)
        ]


def _answer(answer: Visible, images: Sequence[str]) -> dict[str, bool] | TrunklineError:
    if answer.visible is None:
        return _of_policy(DatabaseError(answer.error or "", sqlstate=answer.state))
    return dict(zip(images, answer.visible, strict=True))


def _of_policy(error: DatabaseError) -> TrunklineError:
    """What the subscriber learns of a policy that fails: the words of Postgres may tell a row."""
    if is_clash(error) or is_shortage(error):
        return Unavailable("the policies of the table cannot be asked now.", hint="Come again.")
    logger.warning("a policy fails", sqlstate=error.sqlstate, error=telemetry.redact(error.message))
    if error.sqlstate == _TOOK_TOO_LONG:
        return Invalid("a policy of the table takes too long for a row.", hint=_MEND)
    return Invalid("a policy of the table fails for a row.", hint=_MEND)


def _note_error(row: LiveRead, told: Told) -> None:
    assert row.error is not None
    for number in row.subscriptions or ():
        if row.lost:
            told.lost[number] = row.error
        else:
            logger.warning("a condition fails", subscription=number, error=row.error)
            told.failures[number] = Invalid(  # the words of Postgres tell what is in the row
                "the condition of the subscription does not fit a row: the table has changed.",
                hint="Subscribe again, without a token.",
            )


def _oldest(matches: Iterable[_Match]) -> int:
    return min(match.event.read.event_id or 0 for match in matches)


def _matches(event: _Event, wanted: Mapping[int, Wanted]) -> Iterator[_Match]:
    row = event.read
    for number, held, holds in zip(
        row.subscriptions or (), row.matched_old or (), row.matched_new or (), strict=True
    ):
        if number in wanted:
            yield _Match(event, number, wanted[number], held, holds)


def _by_settings(matches: Iterable[_Match]) -> dict[Settings, list[_Match]]:
    found: dict[Settings, list[_Match]] = {}
    for match in matches:
        found.setdefault(match.wanted.settings, []).append(match)
    return found


def _tell(
    matches: Iterable[_Match], seen: dict[str, bool] | None, allowed: Sequence[str], told: Told
) -> None:
    for match in matches:
        if match.subscription in told.failures or match.subscription in told.lost:
            continue
        try:
            change = _change(match, seen, allowed)
        except Invalid as error:
            _fail([match], error, told)
            continue
        except Exception as error:  # all other streams of the process are told here, too
            logger.exception("a change could not be told", event_id=match.event.read.event_id)
            _fail([match], TrunklineError(f"a change could not be told: {error!r}."), told)
            continue
        if change is not None:
            told.changes.setdefault(match.subscription, []).append(change)
            size = sum(map(len, match.event.images))
            told.sizes[match.subscription] = told.sizes.get(match.subscription, 0) + size


def _change(
    match: _Match, seen: dict[str, bool] | None, allowed: Sequence[str]
) -> LiveChange | None:
    """What a subscription is told of an event; None: nothing."""
    event, wanted = match.event, match.wanted

    def may_see(image: str | None) -> bool:
        return image is not None and (seen is None or seen[image])

    held = match.held and may_see(event.read.old_row)
    holds = match.holds and may_see(event.read.new_row)
    kind = _kind(event.read.operation, held=held, holds=holds)
    if kind is None or _asked_as(kind) not in wanted.changes:
        return None
    change = event.change(kind, wanted.role, wanted.key_columns, allowed)
    if kind is Change.UPDATED and change.patch is not None:
        changed = change.patch.keys()
        if not (changed if wanted.columns is None else changed & wanted.columns):
            return None
    return change


def _kind(operation: str | None, *, held: bool, holds: bool) -> Change | None:
    match operation, held, holds:
        case "truncate", _, _:
            return Change.TRUNCATED
        case "insert", _, True:
            return Change.CREATED
        case "delete", True, _:
            return Change.DELETED
        case "update", True, True:
            return Change.UPDATED
        case "update", False, True:
            return Change.ENTERED
        case "update", True, False:
            return Change.LEFT
    return None


def _asked_as(kind: Change) -> str:
    """What a subscription asks for to be told of this."""
    return {Change.ENTERED: "updated", Change.TRUNCATED: "deleted"}.get(kind, kind.value)


def _fail(matches: Iterable[_Match], error: TrunklineError, told: Told) -> None:
    for match in matches:
        if isinstance(error, Conflict):
            told.lost[match.subscription] = error.message
        else:
            told.failures.setdefault(match.subscription, error)
        told.changes.pop(match.subscription, None)


def _may_not(role: str, column: str) -> Forbidden:
    return Forbidden(
        f'{role} may no longer select column "{column}", by which rows are told.',
        hint="Have the owner of the table grant that again, or subscribe without it.",
    )


def _row(text: str | None) -> Row | None:
    """A row; numbers with a point keep every digit."""
    if text is None:
        return None
    try:
        row = json.loads(text, parse_float=Decimal)
    except ValueError:  # a whole number with more digits than Python likes
        row = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    except RecursionError:
        raise Invalid("a row has a value that is nested too deep to be read.") from None
    if not isinstance(row, dict):
        raise Invalid(f"a row is a JSON object by column, got {text[:80]}.")
    return row


def _only(row: Row, allowed: Sequence[str]) -> Row:
    """The columns that are allowed, in the order of the table."""
    return {name: row[name] for name in allowed if name in row}


def _differ(before: Any, after: Any) -> bool:
    """Whether two values of JSON differ: true is not 1, also within lists and objects."""
    if before != after or type(before) is not type(after):
        return True
    return isinstance(after, dict | list) and repr(before) != repr(after)
