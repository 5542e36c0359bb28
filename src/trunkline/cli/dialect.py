"""What the database says of its functions and arguments, in words of commands and options."""

import re
from typing import Any

_OPTIONS = {
    "from_position": "--from",
    "key_columns": "--key",
    "max_events": "--limit",
    "on_error": "--on-error",
    "retention_bytes": "--retention-bytes",
}
_CALL = re.compile(r"\b([a-z_]+)\(([^()]*)\)")
_GIVEN = re.compile(r'(?<!["\w.])([a-z_]+) => (\w+)')
_NAME = re.compile(rf'(?<!["\w.])({"|".join(_OPTIONS)})(?!["\w(])')


def hint_in_our_words(hint: str, tree: Any) -> str:
    """What to do, for those who see only the commands of this tree."""
    hint = _CALL.sub(lambda found: _command(tree, found[1], found[2]) or found[0], hint)
    hint = _GIVEN.sub(lambda found: _option(found[1], found[2]), hint)
    return message_in_our_words(hint)


def message_in_our_words(message: str) -> str:
    """What is wrong: only arguments are renamed there, for it may quote what somebody wrote."""
    return _NAME.sub(lambda found: _OPTIONS[found[1]], message)


def _command(tree: Any, function: str, arguments: str) -> str | None:
    """The command of the same name as a function, if there is one."""
    path, rest = ["trunkline"], re.sub("^config_", "db_config_", function)
    while rest:
        tried = (name for name in getattr(tree, "commands", ()) if _begins(rest, name))
        name = max(tried, key=len, default=None)
        if name is None:
            return None
        tree, rest = tree.commands[name], rest[len(name) + 1 :]
        path.append(name)
    if hasattr(tree, "commands"):
        return None
    given = [each.strip() for each in arguments.split(",") if each.strip()]
    return " ".join([*path, *(each if "=>" in each else each.upper() for each in given)])


def _begins(function: str, command: str) -> bool:
    return f"{function}_".startswith(f"{command.replace('-', '_')}_")


def _option(name: str, value: str) -> str:
    if name == "up_to":  # the last that is done; the option says the first that comes
        return f"--to {int(value) + 1}" if value.isdigit() else "--to"
    option = _OPTIONS.get(name) or f"--{name.replace('_', '-')}"
    return option if value == "true" else f"{option} {value}"
