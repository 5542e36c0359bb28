"""The example that keeps a cache and a mirror in step with a table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fixtures.redis import PROGRAM

EXAMPLE = Path(__file__).parents[2] / "examples" / "tube_cache_and_mirror.py"


def test_a_cache_and_a_mirror_follow_a_table_row_by_row(dsn: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE],
        env=os.environ | {"TRUNKLINE_DSN": dsn},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, mirror, cache, parked = done.stdout.splitlines()
    assert first == "4 writers made 600 changes"
    equal = r": (\d+) of \1 rows are equal, 0 are left over"
    assert re.fullmatch(f"mirror{equal}", mirror)
    if PROGRAM is None:
        assert cache == "cache: left out, there is no redis-server here"
    else:
        assert re.fullmatch(f"cache{equal}", cache)
    assert parked == "parked: 0"
