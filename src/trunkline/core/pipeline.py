"""`Pipeline`: calls that follow each other on a connection before the first is answered.

The server works on one while the next is made and sent, and nobody waits for the way there and
back. Each is a transaction of its own. No mark stands between them that would let the server begin
anew after an error: once one has failed, it carries out none of those that follow.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Self

from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, Format

from trunkline.core.execution import translated

if TYPE_CHECKING:
    from psycopg.abc import PQGen
    from psycopg.pq.abc import PGresult

    from trunkline.core.calls import Call
    from trunkline.core.eager import EagerConnection

_BEGIN, _COMMIT = b"begin", b"commit"
_MOST_PREPARED = 100  # statements of a connection


class Pipeline:
    """For one at a time: ``send`` and ``answer`` in any order, answers come in that of the sends.

    After an error the connection is closed: what the others came to is not asked for.
    """

    def __init__(self, connection: EagerConnection):
        self._connection = connection
        self._pgconn = connection.pgconn
        self._transformer = Transformer(connection)
        self._under_way: deque[tuple[Call[Any], int]] = deque()

    async def __aenter__(self) -> Self:
        self._pgconn.enter_pipeline_mode()
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is not None or self._under_way:
            await self._connection.close()
            return
        with translated(self._connection):
            self._pgconn.pipeline_sync()
            await self._connection.wait(self._exchange(answers=1))
            self._pgconn.exit_pipeline_mode()

    async def send(self, call: Call[Any]) -> None:
        """Send a call; what others sent before comes first."""
        with translated(self._connection):
            answers = self._put(_BEGIN) + self._put(*_asked(call)) + self._put(_COMMIT)
            self._under_way.append((call, answers))
            self._pgconn.send_flush_request()
            await self._connection.wait(self._exchange(answers=0))

    async def answer(self) -> Any:
        """The answer to the oldest call that is not yet answered: it is committed."""
        call, answers = self._under_way[0]
        with translated(self._connection):
            found = await self._connection.wait(self._exchange(answers=answers))
            (asked,) = (result for result in found if result.status == ExecStatus.TUPLES_OK)
            self._transformer.set_pgresult(asked)
            names = [(asked.fname(i) or b"").decode() for i in range(asked.nfields)]
            rows = self._transformer.load_rows(
                0, asked.ntuples, lambda values: dict(zip(names, values, strict=True))
            )
        self._under_way.popleft()
        return call.shape(rows)

    def _put(
        self,
        statement: bytes,
        values: list[Any] | None = None,
        formats: list[PyFormat] | None = None,
        answer: Format = Format.TEXT,
    ) -> int:
        """Queue a statement; how many answers it will have."""
        given = self._transformer.dump_sequence(values or [], formats or [])
        types, kinds = self._transformer.types or (), self._transformer.formats
        names = self._connection.pipelined
        if name := names.get((statement, types)):
            self._pgconn.send_query_prepared(name, given, kinds, answer)
            return 1
        if len(names) >= _MOST_PREPARED:
            self._pgconn.send_query_params(statement, given, types, kinds, answer)
            return 1
        name = names[(statement, types)] = b"trunkline_%d" % len(names)
        self._pgconn.send_prepare(name, statement, types)
        self._pgconn.send_query_prepared(name, given, kinds, answer)
        return 2

    def _exchange(self, *, answers: int) -> PQGen[list[PGresult]]:
        yield from send(self._pgconn)
        found = []
        for _ in range(answers):
            (result,) = yield from fetch_many(self._pgconn)
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result)
            found.append(result)
        return found


def _asked(call: Call[Any]) -> tuple[bytes, list[Any], list[PyFormat], Format]:
    values = call.values()
    formats = [PyFormat.BINARY if isinstance(value, bytes) else PyFormat.AUTO for value in values]
    return call.numbered(), values, formats, Format(call.binary)
