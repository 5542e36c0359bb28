"""Standard output is data, standard error is talk.

Data is a table on a terminal and one JSON array on a pipe, unless a flag says otherwise. The same
rows are printed either way; only a table shortens them for the eye.
"""

from __future__ import annotations

import csv
import json
import sys
from base64 import b64encode
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from trunkline.core.durations import told as duration
from trunkline.core.unread import JsonText

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rich.console import Console
    from rich.table import Column, Table

_EXACT = 2**53  # beyond it, readers of JSON that keep numbers as doubles lose digits
_encode = json.JSONEncoder(ensure_ascii=False).encode
_SIZES = frozenset({"bytes", "retention_bytes"})
_UNBOUNDED = 10_000  # columns: where there is no terminal, nothing is cut or wrapped
_NAME = 32  # characters of what a row is called: so long they stay together
_LEAST_TEXT = 8  # characters of a column that wraps
_NARROW = {"partition": 9, "offset": 10, "at": 19, "key": 18}
_ESCAPED = {code: repr(chr(code))[1:-1] for code in (*range(32), *range(127, 160))}


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    NL = "nl"
    CSV = "csv"


class Writer(Protocol):
    """Prints rows one by one."""

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Print rows, or keep them until `close` where they can only be printed together."""

    def close(self) -> None:
        """Nothing follows."""


def default_format() -> Format:
    """A table for a person, JSON for a program."""
    return Format.TABLE if sys.stdout.isatty() else Format.JSON


def print_rows(rows: Iterable[Any], form: Format, *, columns: Sequence[str] | None = None) -> None:
    """Print dataclasses or mappings; a table shows only ``columns``."""
    writer: Writer = _Sheet(columns) if form is Format.TABLE else _writer(form)
    writer.write(map(as_row, rows))
    writer.close()


def print_one(row: Any, form: Format, *, columns: Sequence[str] | None = None) -> None:
    """Print one thing: an object in JSON, else a row, or a line per column if it is too wide."""
    if form in {Format.JSON, Format.NL}:
        _put(_json(as_row(row)) + "\n")
    elif form is Format.TABLE:
        sheet = _Sheet(columns, alone=True)
        sheet.write([as_row(row)])
        sheet.close()
    else:
        print_rows([row], form, columns=columns)


def open_stream(form: Format, columns: Sequence[str]) -> Writer:
    """A writer for rows without end: each is printed when it comes."""
    return _Stream(columns) if form is Format.TABLE else _writer(form, columns)


def say(text: str) -> None:
    """Talk to the person, on standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def console(*, talk: bool = False) -> Console:
    """Rich on standard output, or on standard error."""
    from rich.console import Console

    file = sys.stderr if talk else sys.stdout
    width = None if file.isatty() else _UNBOUNDED
    return Console(file=file, width=width, highlight=False, markup=False, emoji=False)


def as_row(thing: Any) -> Mapping[str, Any]:
    """The fields of a dataclass or named tuple by name; a mapping is a row already."""
    if is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in fields(thing)}
    if isinstance(thing, tuple):
        thing = thing._asdict()  # type: ignore[attr-defined]
    row: Mapping[str, Any] = thing
    return row


def plain(value: Any) -> Any:
    """A value as JSON can say it."""
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return value if -_EXACT <= value <= _EXACT else str(value)
    if isinstance(value, bytes):
        text = _text(value)
        return {"base64": b64encode(value).decode()} if text is None else text
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return duration(value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value) or isinstance(value, dict):
        return {str(name): plain(item) for name, item in as_row(value).items()}
    return str(value)


def size(count: int) -> str:
    """Bytes for the eye: ``1.5 MB``."""
    number = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


class _JsonArray:
    def __init__(self) -> None:
        self._between = "["

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            _put(self._between + _json(row))
            self._between = ",\n "
        sys.stdout.flush()

    def close(self) -> None:
        _put("[]\n" if self._between == "[" else "]\n")


class _JsonLines:
    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        _put("".join(_json(row) + "\n" for row in rows))
        sys.stdout.flush()

    def close(self) -> None:
        pass


class _Csv:
    def __init__(self, columns: Sequence[str] | None):
        self._writer = csv.writer(sys.stdout, lineterminator="\n")
        self._begun = False
        if columns is not None:
            self._begin(columns)

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            self._begin(list(row))
            self._writer.writerow(_csv_cell(value) for value in row.values())
        sys.stdout.flush()

    def close(self) -> None:
        pass

    def _begin(self, columns: Sequence[str]) -> None:
        if not self._begun:
            self._begun = True
            self._writer.writerow(columns)


class _Sheet:
    """A table that is printed when all of it is known."""

    def __init__(self, columns: Sequence[str] | None, *, alone: bool = False):
        self._columns = columns
        self._alone = alone
        self._rows: list[Mapping[str, Any]] = []

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows.extend(rows)

    def close(self) -> None:
        if not self._rows:
            return
        columns = list(self._rows[0]) if self._columns is None else self._columns
        screen = console()
        table = self._table(columns, " ")
        unbounded = screen.options.update(max_width=_UNBOUNDED)
        if screen.measure(table, options=unbounded).maximum > screen.width:
            table = self._upright(columns) if self._alone else self._table(columns, "\n")
            _widen(screen, _least_width(table))
        screen.print(table)

    def _table(self, columns: Sequence[str], between: str) -> Table:
        """Neither numbers nor names are cut; ``between`` stands between the words over numbers."""
        table = new_table()
        for name in columns:
            numbers = all(
                isinstance(row[name], int | None) and not isinstance(row[name], bool)
                for row in self._rows
            )
            longest = max(len(cell(name, row[name])) for row in self._rows)
            table.add_column(
                _words(name, between if numbers else " "),
                justify="right" if numbers else "left",
                no_wrap=numbers or (name == columns[0] and longest <= _NAME),
                overflow="fold",
            )
        for row in self._rows:
            table.add_row(*(cell(name, row[name]) for name in columns))
        return table

    def _upright(self, columns: Sequence[str]) -> Table:
        table = new_table(header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name in columns:
            table.add_row(_words(name, " "), cell(name, self._rows[0][name]))
        return table


def _words(name: str, between: str) -> str:
    return between.join(name.removesuffix("_name").split("_"))


def _least_width(table: Table) -> int:
    """So wide a table must be, lest it cut what does not wrap; a terminal breaks its lines."""
    return sum(
        2 + (max(len(part) for part in _texts(column)) if column.no_wrap else _LEAST_TEXT)
        for column in table.columns
    )


def _widen(screen: Console, least: int) -> None:
    """Both at once: of a terminal without movements Rich believes no width that comes alone."""
    screen.size = screen.size._replace(width=max(screen.width, least))


def _texts(column: Column) -> Iterator[str]:
    yield from str(column.header).split("\n")
    yield from map(str, column.cells)


class _Stream:
    """A table that grows: the widths of its columns do not depend on what comes."""

    def __init__(self, columns: Sequence[str]):
        self._columns = columns
        self._header = True

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        table = new_table(header=self._header, expand=sys.stdout.isatty())
        for name in self._columns:
            numbers = name in {"partition", "offset"}
            table.add_column(
                name,
                justify="right" if numbers else "left",
                min_width=_NARROW.get(name),
                max_width=_NARROW.get(name),
                ratio=None if name in _NARROW else 1,
                overflow="fold",
            )
        for row in rows:
            table.add_row(*(cell(name, row[name]) for name in self._columns))
        if table.row_count:
            self._header = False
            screen = console()
            least = sum(2 + _NARROW.get(name, _LEAST_TEXT) for name in self._columns)
            _widen(screen, least)
            screen.print(table)

    def close(self) -> None:
        pass


def new_table(*, header: bool = True, expand: bool = False) -> Table:
    """A table in the house's style: a line under its head and nothing else."""
    from rich import box
    from rich.table import Table

    return Table(
        box=box.SIMPLE_HEAD,
        show_header=header,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        expand=expand,
        header_style="bold",
    )


def cell(name: str, value: Any) -> str:
    """A value in a table: short, in local time, and with nothing that could drive a terminal."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return size(value) if name in _SIZES else str(value)
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return _csv_cell(value).translate(_ESCAPED)


def _writer(form: Format, columns: Sequence[str] | None = None) -> Writer:
    if form is Format.CSV:
        return _Csv(columns)
    return _JsonLines() if form is Format.NL else _JsonArray()


def _csv_cell(value: Any) -> str:
    if isinstance(value, bytes):
        text = _text(value)
        return f"base64:{b64encode(value).decode()}" if text is None else text
    value = _bare(value) if isinstance(value, JsonText) else plain(value)
    if value is None:
        return ""
    return value if isinstance(value, str) else _encode(value)


def _bare(text: JsonText) -> str | None:
    """JSON in a cell: a text without its quotes, nothing for null."""
    if text == "null":
        return None
    bare: str = json.loads(text) if text.startswith('"') else text
    return bare


def _json(row: Mapping[str, Any]) -> str:
    return f"{{{', '.join([f'{_encode(name)}: {_json_value(row[name])}' for name in row])}}}"


def _json_value(value: Any) -> str:
    """A value as JSON; what is JSON already keeps every digit."""
    return value if isinstance(value, JsonText) else _encode(plain(value))


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _put(text: str) -> None:
    sys.stdout.write(text)
