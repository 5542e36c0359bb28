"""Run with an older package: prepare every call that it makes, read rows of the newer schema.

Arguments: the DSN. Prints how many calls the schema serves; one that it does not serve fails.
"""

from __future__ import annotations

import sys

import psycopg
from tests.core.test_rows import READ, builders, columns, described, sample


def main(dsn: str) -> None:
    served = 0
    with psycopg.connect(dsn, autocommit=True) as session:
        for number, build in enumerate(builders()):
            call = described(build)
            statement = call.numbered().decode()
            session.execute(f"prepare call_{number} as {statement}".encode())
            row = {name: sample(kind) for name, kind in columns(session, call.function).items()}
            call.shape([row | READ.get(call.function, {})])
            served += 1
    print(served)


if __name__ == "__main__":
    main(sys.argv[1])
