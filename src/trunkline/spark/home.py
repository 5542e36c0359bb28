"""A home of Spark in which its Python processes find PySpark compiled.

Spark puts the zip of PySpark first on the path of its Python processes, and what comes from a zip
Python compiles every time anew: more than half a second for each process, of which a session has
about ten and every stream some more. The same package lies unpacked and compiled beside the zip.
This home is a folder of links; where the zips would be, there are folders with the packages.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINKED = ("bin", "jars")
_LIBRARY = Path("python", "lib")


@contextmanager
def compiled() -> Iterator[None]:
    """Give what is started in the block such a home, unless a home is named already."""
    if "SPARK_HOME" in os.environ:
        yield
        return
    with suppress(OSError):  # without a place for it, or links, it takes longer
        os.environ["SPARK_HOME"] = str(compiled_home())
    try:
        yield
    finally:
        os.environ.pop("SPARK_HOME", None)


def compiled_home() -> Path:
    """The folder, made if it is not there; the same for every process of this installation."""
    from pyspark.find_spark_home import _find_spark_home

    real = Path(_find_spark_home())
    archives = sorted((real / _LIBRARY).glob("*.zip"))
    links = {Path(name): real / name for name in _LINKED} | {
        _LIBRARY / archive.name / package: _place(package)
        for archive in archives
        for package in (archive.stem.partition("-")[0],)
    }
    name = hashlib.sha256(repr(sorted(links.items())).encode()).hexdigest()[:16]
    home = user_cache_path("trunkline") / f"spark-{name}"
    if not home.exists():
        _lay_out(home, links)
    return home


def _place(package: str) -> Path:
    return Path(str(import_module(package).__file__)).parent


def _lay_out(home: Path, links: dict[Path, Path]) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="spark-", dir=home.parent))
    try:
        for link, target in links.items():
            (made / link.parent).mkdir(parents=True, exist_ok=True)
            (made / link).symlink_to(target)
        made.rename(home)
    except OSError:
        if not home.exists():  # else somebody was quicker
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
