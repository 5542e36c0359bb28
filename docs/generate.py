"""Fill the generated parts of the reference from the code, so that the two cannot drift.

    python docs/generate.py

Every part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. A test renders all of
them and compares.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import types
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import typer

import trunkline
from trunkline import spark
from trunkline.broker import enqueue
from trunkline.cli import main
from trunkline.core import errors, migrate
from trunkline.core import objects as core_objects
from trunkline.core.calls import AsyncFace
from trunkline.kv import client as kv_client
from trunkline.kv import models as kv_models
from trunkline.live import client as live_client
from trunkline.live import models as live_models
from trunkline.live import stream as live_stream
from trunkline.log import assigned, client, consumer, models, producer
from trunkline.spark import (
    delta_sink,
    delta_source,
    events_sink,
    events_source,
    iceberg_sink,
    kv_sink,
    kv_source,
    log_options,
    log_sink,
    table_sink,
    table_source,
    tube_sink,
    tube_source,
)
from trunkline.spark.jobs import archive, audit, audit_topic, replay, sync
from trunkline.spark.session import FAST, SETTINGS
from trunkline.spark.session import SOURCES as PLACES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trunkline.spark.options import Options

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
SOURCES = ROOT / "src" / "trunkline"

_PART = re.compile(r"(<!-- generated: (?P<name>[^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)

REST = "*"  # whatever stands under no other theme
THEMES = {
    "log": {
        "Topics": "create alter delete list describe settings",
        "Append": "append append_text append_batch flush partition_of",
        "Read": "read fetch ready ends offset_at position_check",
        "Assigned groups": "join commit leave",
        "Shared groups": "claimable claim ack release extend bury",
        "Dead letters": "dead_list dead_show dead_retry dead_discard",
        "Any group": "groups lag behind seek progress group_delete",
        "Upkeep": "trim compact verify",
        "Archive": "archivable archive_add archives",
        "Duties of maintain()": "segments_seal segments_retire segments_drop topics_compact",
    },
    "broker": {
        "Events": "publish publish_many topic events head source event_id_text event_id "
        "event_time why",
        "Numbering": "tick release next_due unnumbered",
        "Subscriptions": "subscribe unsubscribe subscriptions explain resume topic_matches hold",
        "Groups": "group group_delete handler_delete groups lag lost seek progress join leave",
        "Reading": "read commit fetch look deliveries scan ends",
        "Retries and dead letters": "fail park retries retried trial "
        "dead_list dead_show dead_retry dead_discard",
        "Watched tables": "watch unwatch watched",
        "Matching": "match match_try unmatched catch_up conditions quarantine quarantined",
        "Webhooks": "webhook_add webhook_list webhook_rotate webhook_pause webhook_resume "
        "webhook_remove webhook_log",
        "Forwarding": "forward forwardable unforwarded unforwarded_discard",
        "Duties of maintain()": "cursors_advance forwards_advance expire watches_check",
        "Others": REST,
    },
    "live": {
        "Tables": "watch unwatch watch_tagged tables",
        "Who may": "allow forbid access visible visible_many",
        "Subscriptions": "subscribe unsubscribe subscriptions",
        "Reading": "read enter leave",
        "Duties of maintain()": "expire",
        "Streams": REST,
    },
    "kv": {
        "Keys": "get get_many put put_many delete patch_numeric scan cuts",
        "Watching": "changes head ends tick",
        "The parade": "instance_put instance_drop instance_here topology "
        "local_replication_topology namespace_put policy_put policy_drop policies",
        "How it stands": "status held",
        "What others ask of an instance": "hello copy_begin copy export confirm digest bucket",
        "What a puller does with it": "pulled witness apply heard begin_anew make_whole",
        "Duties of maintain()": "expire release forget",
    },
    "core": {
        "Settings and roles": "config_list config_get config_set roles_grant",
        "Objects: owners and grants": "grant_on revoke_on object_transfer object_list "
        "doctor_objects",
        "Quotas": "quota_set quota_list",
        "Leases": "lease_renew lease_ttl lease_rest lease_end lease_list",
        "Presence": "lease_key lease_attend lease_watch",
        "Owners": "owner_take owner_release owner_of",
        "History": "incarnation incarnation_begin",
        "Versions": "compatibility",
        "Upkeep": "maintain duty_list ring_list doctor_blockers rings_rotate leases_expire",
        "For capabilities: rings": "_ring_create _ring_current _ring_rotate _ring_free _ring_grow",
        "For capabilities: cursors": "_cursor_ensure _cursor_hold _cursor_latest _cursor_move "
        "_cursor_write",
        "For capabilities: sequences and ticks": "_sequence_create _tick_take _tick_latest "
        "_sequence_rows",
        "For capabilities: objects": "_object_kind _object_follow _object_adopt _object_like "
        "_may _check_may _caller _quota_take",
        "For capabilities: fencing and errors": "_owner_check _raise",
    },
    "spark": {
        "Ledger": "commit written next_batch",
        "Staging": "stage stage_batches append publish kv_put touch unstage",
        "Duties of maintain()": "staging_drop ledger_trim",
    },
}

FUNCTIONS: dict[str, dict[str, Callable[..., Any]]] = {
    "core": {
        "trunkline.connect": trunkline.connect,
        "trunkline.connect_sync": trunkline.connect_sync,
    },
    "spark": {
        f"trunkline.spark.{name}": getattr(spark, name)
        for name in ("session", "register", *spark.__all__)
        if callable(getattr(spark, name))
    },
}
FACES: dict[str, list[tuple[type, str, str]]] = {
    "log": [
        (client.Log, "tl.log", ""),
        (producer.Producer, "producer", ""),
        (consumer.Consumer, "consumer", "poll close"),
        (assigned.AssignedConsumer, "consumer", "assignment"),
        (consumer.Batch, "batch", ""),
    ],
    "broker": [
        (trunkline.Broker, "tl.broker", ""),
        (enqueue.Enqueuer, "enqueuer", "enqueue flush close"),
        (trunkline.App, "app", ""),
    ],
    "live": [
        (live_client.Live, "tl.live", ""),
        (live_stream.LiveStream, "stream", "token open close items"),
    ],
    "kv": [(kv_client.Kv, "tl.kv", ""), (trunkline.Parade, "parade", "")],
    "core": [
        (trunkline.Platform, "tl", "dsn transaction services close"),
        (core_objects.Objects, "tl.objects", ""),
    ],
    "spark": [],
}
VALUES: dict[str, list[type]] = {
    "core": [core_objects.OwnedObject, core_objects.Quota],
    "log": [
        models.Outgoing,
        models.Message,
        models.Appended,
        models.Topic,
        models.TopicSize,
        models.Partition,
        models.Position,
        models.Lag,
        models.Behind,
        models.Check,
        models.DeadMessage,
        models.DeadMessageDetails,
    ],
    "live": [
        live_models.LiveTable,
        live_models.LiveColumn,
        live_models.LiveAccess,
        live_models.Subscribed,
        live_models.LiveSubscription,
        live_models.LiveBatch,
        live_models.LiveChange,
        live_models.LiveRead,
    ],
    "kv": [
        kv_models.KvEntry,
        kv_models.KvChange,
        kv_models.Ends,
        kv_models.KvPolicy,
        kv_models.KvInstance,
        kv_models.KvPeer,
        kv_models.KvStatus,
        kv_models.KvHeld,
    ],
    "spark": [
        sync.Synced,
        audit.Audit,
        audit_topic.TopicPart,
        archive.ArchivedTopic,
        replay.Replayed,
    ],
}
FORMATS: dict[str, dict[str, type[Options]]] = {
    "trunkline.log": {"read": log_options.LogOptions, "write": log_sink.LogSinkOptions},
    "trunkline.table": {
        "read": table_source.TableSourceOptions,
        "write": table_sink.TableSinkOptions,
    },
    "trunkline.tube": {"read": tube_source.TubeOptions, "write": tube_sink.TubeSinkOptions},
    "trunkline.events": {
        "read": events_source.EventsOptions,
        "write": events_sink.EventsSinkOptions,
    },
    "trunkline.kv": {"read": kv_source.KvOptions, "write": kv_sink.KvSinkOptions},
    "trunkline.delta": {
        "read": delta_source.DeltaReadOptions,
        "write": delta_sink.DeltaSinkOptions,
    },
    "trunkline.iceberg": {"write": iceberg_sink.IcebergSinkOptions},
}
CALLED = {
    "read": {"reader": "spark.read", "streamReader": "spark.readStream"},
    "write": {"writer": "df.write", "streamWriter": "df.writeStream"},
}


@dataclass(frozen=True)
class Routine:
    """One file of `sql/functions`."""

    name: str
    text: str

    @property
    def header(self) -> str:
        """What the comment at the head of the file says, as one paragraph."""
        found = re.match(r"/\*(.*?)\*/", self.text, re.DOTALL)
        return _prose(found[1]) if found else ""

    @property
    def comment(self) -> str:
        """The COMMENT of the function, else the first sentence of the header."""
        found = re.search(r"^comment on \w+ .*? is\s+'((?:[^']|'')*)';", self.text, re.M | re.S)
        return _prose(found[1]) if found else self.header.split(". ")[0].rstrip(".") + "."

    @property
    def signature(self) -> str:
        """Name, parameters and result, as they are declared."""
        found = re.search(
            r"create or replace (?:function|procedure) trunkline\.(.*?)\s+language ",
            self.text,
            re.S,
        )
        assert found is not None, self.name
        return re.sub(r"\n\s*", "\n  ", found[1]).replace("\n  returns", "\nreturns")

    @property
    def role(self) -> str:
        found = re.search(r"_access\('.*', '(\w+)'\)", self.text)
        return f"trunkline_{found[1]}" if found else ""

    @property
    def raised(self) -> set[str]:
        """The refusals in its own text."""
        return set(re.findall(r"'(TL\d{3})'", self.text))

    @property
    def called(self) -> set[str]:
        body = re.sub(r"/\*.*?\*/|--[^\n]*", "", self.text, flags=re.DOTALL)
        return set(re.findall(r"trunkline\.(\w+)\(", body)) - {self.name}


@cache
def routines() -> dict[str, Routine]:
    return {
        path.stem: Routine(path.stem, path.read_text("utf-8"))
        for capability in migrate.CAPABILITIES
        for path in sorted((SOURCES / capability / "sql" / "functions").glob("*.sql"))
    }


def refusals(name: str) -> list[str]:
    """What a function may raise, itself or through what it calls."""
    known, reached, todo = routines(), set[str](), [name]
    while todo:
        if (each := todo.pop()) in known and each not in reached:
            reached.add(each)
            todo += known[each].called
    return sorted(set().union(*(known[each].raised for each in reached)))


def public_names(capability: str) -> list[str]:
    """The functions of a capability, without its name in front."""
    paths = (SOURCES / capability / "sql" / "functions").glob("[!_]*.sql")
    return sorted(path.stem.removeprefix(f"{capability}_") for path in paths)


def full_name(capability: str, short: str) -> str:
    long = f"{capability}_{short}"
    return long if long in routines() else short


def themes_of(capability: str) -> dict[str, list[str]]:
    """The names of functions under each theme that has any."""
    public = public_names(capability)
    themes = THEMES.get(capability, {"Functions": REST})
    placed = {short for names in themes.values() for short in names.split()}
    rest = [short for short in public if short not in placed]
    chosen = {theme: rest if names == REST else names.split() for theme, names in themes.items()}
    return {theme: names for theme, names in chosen.items() if names}


def unsorted_functions() -> set[str]:
    """Public functions of a documented capability that stand under no theme."""
    return {
        full_name(capability, short)
        for capability in THEMES
        for short in set(public_names(capability)).difference(*themes_of(capability).values())
    }


def sql_part(capability: str) -> Iterator[str]:
    yield "| function | what it does | who may call it |"
    yield "|---|---|---|"
    chosen = {
        theme: [routines()[full_name(capability, short)] for short in names]
        for theme, names in themes_of(capability).items()
    }
    for members in chosen.values():
        for routine in members:
            who = f"`{routine.role}`" if routine.role else "the owner of the schema"
            yield f"| [`{routine.name}`](#{routine.name}) | {_cell(routine.comment)} | {who} |"
    for theme, members in chosen.items():
        yield f"\n### {theme}"
        for routine in members:
            yield f"\n#### {routine.name}\n\n```sql\n{routine.signature}\n```\n"
            yield routine.header
            if codes := refusals(routine.name):
                links = ", ".join(f"[{code}](errors.md#{_anchor(code)})" for code in codes)
                yield f"\nRefusals: {links}."


def faces_of(capability: str) -> list[tuple[type, str, str]]:
    """The client of a capability that has no entry in `FACES`."""
    module = import_module(f"trunkline.{capability}.client")
    return [
        (kind, f"tl.{capability}", "")
        for kind in vars(module).values()
        if inspect.isclass(kind) and issubclass(kind, AsyncFace) and kind is not AsyncFace
    ]


def values_of(capability: str) -> list[type]:
    if capability in VALUES:
        return VALUES[capability]
    models = vars(import_module(f"trunkline.{capability}.models")).values()
    return [kind for kind in models if inspect.isclass(kind) and is_dataclass(kind)]


def python_part(capability: str) -> Iterator[str]:
    for name, function in FUNCTIONS.get(capability, {}).items():
        yield from _method(name, function)
    faces = FACES[capability] if capability in FACES else faces_of(capability)
    for kind, variable, chosen in faces:
        yield f"\n#### {kind.__name__}\n\n{_doc(kind)}"
        public = [name for name in vars(kind) if not name.startswith("_")]
        for name in chosen.split() or public:
            member = vars(kind)[name]
            if isinstance(member, property) or hasattr(member, "func"):
                getter = member.fget if isinstance(member, property) else member.func
                yield f"\n`{variable}.{name}`: {_doc(getter)}"
            elif callable(member):
                yield from _method(f"{variable}.{name}", member)
    if values := values_of(capability):
        yield "\n#### Values\n\n| class | fields | what it is |\n|---|---|---|"
        for value in values:
            found = getattr(value, "_fields", None) or [field.name for field in fields(value)]
            names = ", ".join(f"`{name}`" for name in found)
            yield f"| `{value.__name__}` | {names} | {_cell(_doc(value))} |"


def _method(name: str, function: Callable[..., Any]) -> Iterator[str]:
    signature = inspect.signature(function)
    answer = str(signature.return_annotation).replace("Receipts", "list[Appended]")
    waits = inspect.iscoroutinefunction(function) or answer.startswith("Call[")
    answer = re.sub(r"^Call\[(.*)\]$", r"\1", answer)
    parameters = [*_parameters(signature)]
    call = f"{'await ' if waits else ''}{name}({', '.join(parameters)}) -> {answer}"
    if len(call) > 100:
        head = call.partition("(")[0]
        call = f"{head}(\n" + "".join(f"    {each},\n" for each in parameters) + f") -> {answer}"
    yield f"\n```python\n{call}\n```\n"
    yield _doc(function)


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    starred = False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        default = "" if parameter.default is parameter.empty else f" = {_value(parameter.default)}"
        if parameter.annotation is parameter.empty:
            yield f"{stars}{parameter.name}{default.replace(' ', '')}"
        else:
            yield f"{stars}{parameter.name}: {parameter.annotation}{default}"


def _value(default: Any) -> str:
    if isinstance(default, timedelta):
        return f"timedelta(seconds={default.total_seconds():g})"
    if inspect.isfunction(default):
        return default.__name__
    return repr(default.value if isinstance(default, Enum) else default)


def errors_part(_: str) -> Iterator[str]:
    yield "| SQLSTATE | Python | what happened |"
    yield "|---|---|---|"
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, errors.TrunklineError):
            code = "any other" if kind is errors.DatabaseError else kind.code
            if kind is not errors.TrunklineError:
                yield f"| {code} | `trunkline.{kind.__name__}` | {_cell(_doc(kind))} |"


def settings_part(capability: str) -> Iterator[str]:
    yield "| setting | default | type | what it is for |"
    yield "|---|---|---|---|"
    with trunkline.connect_sync() as tl, tl.transaction() as connection:
        rows = connection.execute("select * from trunkline.config_list()").fetchall()
    tables = (SOURCES / capability / "sql").glob("*.sql")
    written = "".join(path.read_text("utf-8") for path in tables)
    for name, _value, default, kind, description in rows:
        ring = re.match(r"ring\.(\w+)\.", name)
        origin = f"_create('{ring[1]}'" if ring else f"('{name}'"
        if origin in written:
            yield f"| `{name}` | {default} | {kind} | {_cell(description)} |"


def conf_part(which: str) -> Iterator[str]:
    """Settings of Spark that we choose."""
    chosen = {"SETTINGS": SETTINGS, "FAST": FAST}[which]
    yield "| setting of Spark | value |"
    yield "|---|---|"
    for name, value in chosen.items():
        yield f"| `{name}` | `{value}` |"


def formats_part(_: str) -> Iterator[str]:
    """The options of every format, from the classes that check them."""
    for name, uses in FORMATS.items():
        module, _, source = PLACES[name].partition(":")
        offered = vars(getattr(import_module(module), source))
        for use, options in uses.items():
            said = [f"`{words}`" for method, words in CALLED[use].items() if method in offered]
            yield f"\n### {name}: {use}\n\nWith {' and '.join(said)}.\n"
            yield "| option | what it takes | default | what it is for |"
            yield "|---|---|---|---|"
            for field_name, field in options.model_fields.items():
                default = "needed" if field.is_required() else _said(field.default)
                words = _cell(_doc_text(_said_below(options)[field_name]))
                yield f"| `{field.alias}` | {_taken(field.annotation)} | {default} | {words} |"


def _said_below(options: type) -> dict[str, str]:
    """What stands under each field of a class and of those it extends."""
    found: dict[str, str] = {}
    for kind in reversed(options.__mro__[:-2]):
        if not kind.__module__.startswith("trunkline."):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(body, ast.ClassDef)
        for line, below in pairwise(body.body):
            if isinstance(line, ast.AnnAssign) and isinstance(below, ast.Expr):
                assert isinstance(line.target, ast.Name)
                assert isinstance(below.value, ast.Constant)
                found[line.target.id] = inspect.cleandoc(str(below.value.value))
    return found


def _taken(annotation: Any) -> str:
    """A type in the words of somebody who writes ``.option(...)``."""
    if get_origin(annotation) in (Annotated, Union, types.UnionType):
        return _taken(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if get_origin(annotation) is tuple:
        return "list" if get_args(annotation)[0] is str else "JSON"
    if get_origin(annotation) is dict:
        return "JSON"
    if annotation is datetime:
        return "time"
    if annotation is timedelta:
        return "duration"
    return {str: "text", int: "number", bool: "`true`, `false`"}[annotation]


def _said(default: Any) -> str:
    if default is None or default == ():
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def cli_part(capability: str) -> Iterator[str]:
    commands: dict[str, Any] = typer.main.get_command(main.app).commands  # type: ignore[attr-defined]
    if capability == "core":
        yield "Every command has these options; the formats, where something is read:\n"
        yield from _options(commands["doctor"], shared=True)
        for name, command in commands.items():
            if name not in migrate.CAPABILITIES:
                yield from _commands(f"trunkline {name}", command)
    else:
        yield from _commands(f"trunkline {capability}", commands[capability])


def _commands(name: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for child_name, child in command.commands.items():
            yield from _commands(f"{name} {child_name}", child)
        return
    arguments = [
        _argument(param) for param in command.params if param.param_type_name == "argument"
    ]
    yield f"\n#### {name}\n\n{_doc_text(command.help or '')}\n"
    yield f"```\n{' '.join([name, *arguments])} [OPTIONS]"
    yield f"\n{command.epilog.removeprefix('Example: ')}\n```\n"
    yield from _options(command, shared=False)


def _argument(param: Any) -> str:
    name = param.metavar or param.name.upper()
    return (name if param.required else f"[{name}]") + ("..." if param.nargs == -1 else "")


def _options(command: Any, *, shared: bool) -> Iterator[str]:
    for param in command.params:
        is_shared = getattr(param, "rich_help_panel", None) in {"Connection", "Output"}
        if param.param_type_name != "option" or is_shared != shared or "--help" in param.opts:
            continue
        words = ", ".join(f"`{each}`" for each in (*param.opts, *param.secondary_opts))
        metavar = "" if param.is_flag else f" {param.metavar or param.type.name.upper()}"
        stated = param.default not in (None, False, "") and not callable(param.default)
        default = f" Default: {param.default}." if stated else ""
        yield f"- {words}{metavar}: {param.help}{default}"


PARTS: dict[str, Callable[[str], Iterator[str]]] = {
    "sql": sql_part,
    "python": python_part,
    "errors": errors_part,
    "settings": settings_part,
    "cli": cli_part,
    "formats": formats_part,
    "conf": conf_part,
}


def render(page: Path) -> str:
    """The page as it should be."""

    def part(found: re.Match[str]) -> str:
        kind, _, argument = found["name"].partition(" ")
        return f"{found[1]}\n{chr(10).join(PARTS[kind](argument))}\n\n{found[3]}"

    return _PART.sub(part, page.read_text("utf-8"))


def _anchor(code: str) -> str:
    kind = next(
        each
        for each in vars(errors).values()
        if inspect.isclass(each)
        and issubclass(each, errors.TrunklineError)
        and each.code == code
        and each is not errors.TrunklineError
    )
    return f"{code}-{kind.__name__}".lower()


def _doc(thing: Any) -> str:
    return _doc_text(inspect.getdoc(thing) or "")


def _doc_text(text: str) -> str:
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"(?<!\n)\n(?!\n)", " ", text)


def _prose(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip().replace("''", "'")
    return re.sub(r"(?<![\w`])(_?[a-z]+(?:_[a-z]+)+\(\))", r"`\1`", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write() -> None:
    for page in sorted(PAGES.glob("*.md")):
        text = render(page)
        if text != page.read_text("utf-8"):
            page.write_text(text, "utf-8")
            sys.stdout.write(f"{page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    write()
