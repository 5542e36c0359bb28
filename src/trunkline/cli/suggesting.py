"""Which commands a user may have meant by a name that does not exist."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

_MOST = 3
# Names that other tools have for the same thing.
_ELSEWHERE = {
    "add": ("broker publish", "broker webhook add", "kv put"),
    "cat": ("log read",),
    "consume": ("log consume", "broker stream"),
    "create": ("log create", "tube ensure", "kv namespace put", "live watch"),
    "del": ("log delete", "kv delete", "tube drop"),
    "events": ("broker stream", "broker read"),
    "ls": ("log list", "tube list", "broker groups", "live tables", "kv scan"),
    "migrate": ("db upgrade",),
    "produce": ("log append", "broker publish"),
    "publish": ("broker publish", "log append"),
    "remove": ("log delete", "tube drop", "kv delete"),
    "rm": ("log delete", "tube drop", "kv delete"),
    "run": ("up", "serve", "broker worker", "tube worker"),
    "send": ("broker publish", "log append"),
    "server": ("up", "serve"),
    "set": ("kv put", "db config set"),
    "start": ("up", "serve"),
    "status": ("doctor", "db verify", "tube stats", "kv status", "broker lag"),
    "subscribe": ("broker subscribe", "live follow", "log consume"),
    "tail": ("log consume", "broker stream", "live follow", "kv watch"),
    "topics": ("log list",),
    "version": ("--version",),
}


def suggestions(tree: Any, group: str, word: str) -> list[str]:
    """Full names of commands: of the group by meaning, then by spelling, else of other groups.

    ``group`` is the name of the group that was asked, without the program's: "log", or "".
    """
    word = word.lower()
    inside = f"{group} " if group else ""
    paths = list(_paths(tree))
    here = {path.removeprefix(inside): path for path in paths if path.startswith(inside)}
    near = {name: path for name, path in here.items() if " " not in name}
    spelt = [near[name] for name in near if name.startswith(word)] if len(word) > 1 else []
    spelt += [near[name] for name in get_close_matches(word, near, _MOST)]
    meant = [path for path in _ELSEWHERE.get(word, ()) if path.startswith(inside)]
    same = [path for path in paths if path.rpartition(" ")[2] == word]
    found = [*meant, *spelt] or [*same, *_ELSEWHERE.get(word, ())]
    return list(dict.fromkeys(found))[:_MOST]


def _paths(tree: Any, before: str = "") -> Iterator[str]:
    """Every group and command by its full name."""
    for name, command in getattr(tree, "commands", {}).items():
        yield before + name
        yield from _paths(command, f"{before}{name} ")
