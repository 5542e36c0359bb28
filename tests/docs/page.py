"""Run the code of a page, block after block, as a reader would paste it.

    python tests/docs/page.py PAGE [EXAMPLE...]

::

    ```python            run; the blocks of a page share their names, `await` needs no function
    ```python FILE.py    written to that file in the working directory
    ```sql               typed into one psql session
    ```sh                run by bash
    ```text              what the block before it prints; `...` stands for anything

A block after ``<!-- not run: why -->`` is left alone, and so is what is generated. Prints nothing
and ends with 0 when every block ran and printed what the page says. Examples are files that are run
after that in the same process, which has started by then what takes long to start.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import io
import os
import re
import runpy
import subprocess
import sys
import traceback
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_FENCE = re.compile(
    r"^(?P<before><!-- not run: [^>]+ -->\n\n?)?```(?P<language>\w+)(?: (?P<file>\S+))?\n"
    r"(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_GENERATED = re.compile(r"<!-- generated: .*?<!-- end -->", re.DOTALL)
_END = "-- end of block --"


@dataclass(frozen=True)
class Block:
    """Code of a page, and what it should print, if the page says so."""

    language: str
    text: str
    line: int
    file: str | None = None
    expected: str | None = None


def blocks(page: Path) -> list[Block]:
    """The blocks that are run."""
    found: list[Block] = []
    text = _GENERATED.sub(lambda part: "\n" * part[0].count("\n"), page.read_text("utf-8"))
    end = 0
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 1
        block = Block(fence["language"], fence["text"], line, fence["file"])
        if block.language == "text" and end and not text[end : fence.start()].strip():
            found[-1] = replace(found[-1], expected=block.text)
        runs = block.language in {"python", "sql", "sh"} and not fence["before"]
        if runs:
            found.append(block)
        end = fence.end() if runs else 0
    return found


class Page:
    """The sessions that the blocks of one page share."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._loop = asyncio.Runner()
        self._psql: subprocess.Popen[str] | None = None

    def run(self, block: Block) -> str:
        """Run a block and return what it printed."""
        if block.file is not None:
            Path(block.file).write_text(block.text)
            return ""
        kinds = {"python": self._python, "sql": self._sql, "sh": self._shell}
        return kinds[block.language](block)

    def _python(self, block: Block) -> str:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile("\n" * block.line + block.text, "page", "exec", flags, dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            answer = eval(code, self._names)
            if asyncio.iscoroutine(answer):
                self._loop.run(answer)
        return printed.getvalue()

    def _shell(self, block: Block) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def _sql(self, block: Block) -> str:
        if self._psql is None:
            self._psql = subprocess.Popen(
                ["psql", os.environ["TRUNKLINE_DSN"], "-X", "-q", "-v", "ON_ERROR_STOP=1"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        assert self._psql.stdin is not None
        self._psql.stdin.write(f"{block.text}\n\\echo {_END}\n")
        self._psql.stdin.flush()
        return "".join(self._sql_lines(self._psql))

    def _sql_lines(self, psql: subprocess.Popen[str]) -> Iterator[str]:
        printed: list[str] = []
        for line in psql.stdout or ():
            if line.strip() == _END:
                yield from printed
                return
            printed.append(line)
        raise AssertionError("psql ended: " + "".join(printed))

    def close(self) -> None:
        if self._psql is not None:
            self._psql.communicate()
        self._loop.close()


def matches(expected: str, printed: str) -> bool:
    """Whether a page tells the truth about what is printed."""
    return doctest.OutputChecker().check_output(_plain(expected), _plain(printed), doctest.ELLIPSIS)


def _plain(text: str) -> str:
    """Lines without the blanks at their ends, and without empty lines."""
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines() if line.strip())


def main(path: Path) -> int:
    page = Page()
    try:
        for block in blocks(path):
            where = f"{path}:{block.line} ({block.language})"
            try:
                printed = page.run(block)
            except Exception:
                sys.stderr.write(f"{where} failed:\n{block.text}\n{traceback.format_exc()}")
                return 1
            if block.expected is not None and not matches(block.expected, printed):
                sys.stderr.write(
                    f"{where} printed something else.\nExpected:\n{block.expected}\nGot:\n{printed}"
                )
                return 1
    finally:
        page.close()
    return 0


if __name__ == "__main__":
    if failed := main(Path(sys.argv[1]).resolve()):
        sys.exit(failed)
    for example in sys.argv[2:]:
        runpy.run_path(example, run_name="__main__")
