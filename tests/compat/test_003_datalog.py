"""The writer and the reader of the document about a log, each one statement, as a loop.

The document's tables cannot be made as printed: ``offset`` is a reserved word. A topic of the log
takes their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.fixtures.asking import ask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fixtures.asking import Connect, Session

WRITER = """
SELECT first_offset, last_offset
  FROM trunkline.log_append('topicpartition', 0, payloads => %(payloads)s)
"""
READER = """
SELECT first_offset AS claimed_start_offset, last_offset AS claimed_end_offset
  FROM trunkline.log_claim('topicpartition', %(consumer_group_id)s, 0, %(max_batch_size)s)
"""
BATCH = """
SELECT log_offset, value FROM trunkline.log_read('topicpartition', 0, %(first)s, %(n)s)
"""

PRINTED_READER = """
WITH counter_tip AS (
  SELECT (next_offset - 1) AS highest_committed_offset FROM log_counter WHERE id = 1
), claimed_range AS (
  UPDATE consumer_offsets c
  SET next_offset = c.next_offset
                  + LEAST(%(b)s, GREATEST(0,
                      (SELECT highest_committed_offset FROM counter_tip) - c.next_offset + 1))
  WHERE c.group_id = 'g1'
  RETURNING
    (next_offset - LEAST(%(b)s, GREATEST(0,
       (SELECT highest_committed_offset FROM counter_tip) - next_offset + %(b)s))),
    (next_offset - 1)
)
SELECT * FROM claimed_range
"""


@pytest.fixture
def log(session: Session) -> Session:
    session.execute("SELECT trunkline.log_create('topicpartition')")
    return session


def write(session: Session, payloads: Sequence[bytes]) -> tuple[int, int]:
    row = session.execute(WRITER, {"payloads": list(payloads)}).fetchone()
    assert row is not None
    return row


def read_batch(session: Session, group: str = "g1", most: int = 50) -> tuple[int, int] | None:
    """Run the reader's statement once; None at the tip."""
    asked = {"consumer_group_id": group, "max_batch_size": most}
    return session.execute(READER, asked).fetchone()


def read_to_the_tip(session: Session, group: str, most: int) -> list[tuple[int, int]]:
    claims = []
    while claim := read_batch(session, group, most):
        claims.append(claim)
    return claims


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE topicpartition (offset BIGINT UNIQUE NOT NULL)",
        "CREATE UNIQUE INDEX idx_topicpartition_offset ON topicpartition(offset)",
        "INSERT INTO topicpartition(offset, payload) SELECT 1, 'x'",
    ],
)
def test_the_server_refuses_a_column_that_is_called_offset(
    session: Session, statement: str
) -> None:
    with pytest.raises(psycopg.errors.SyntaxError, match='at or near "offset"'):
        session.execute(statement)


def test_the_writer_numbers_batches_of_50_without_gaps(log: Session) -> None:
    for n in range(4):
        assert write(log, [b"%d" % n] * 50) == (50 * n + 1, 50 * n + 50)


def test_a_writer_that_rolls_back_leaves_no_gap(log: Session, connect: Connect) -> None:
    write(log, [b"kept"])
    other = connect(autocommit=False)
    write(other, [b"lost"] * 7)
    other.rollback()
    assert write(log, [b"kept too"]) == (2, 2)


@pytest.mark.parametrize(
    ("tip", "returned"),
    [
        pytest.param(50, (2, 50), id="one batch is left: it skips a message"),
        pytest.param(0, (-48, 0), id="at the tip: a row all the same"),
        pytest.param(20, (-28, 20), id="less than a batch is left: it begins too low"),
    ],
)
def test_the_printed_reader_returns_other_ranges_than_it_claims(
    session: Session, tip: int, returned: tuple[int, int]
) -> None:
    session.execute("create temp table log_counter as select 1 as id, %s + 1 as next_offset", [tip])
    session.execute(
        "create temp table consumer_offsets as select 'g1' as group_id, 1 as next_offset"
    )
    assert session.execute(PRINTED_READER, {"b": 50}).fetchone() == returned


def test_the_reader_claims_exactly_what_it_returns(log: Session) -> None:
    write(log, [b"%d" % n for n in range(1, 121)])
    assert read_to_the_tip(log, "g1", 50) == [(1, 50), (51, 100), (101, 120)]
    write(log, [b"121"])
    assert read_to_the_tip(log, "g1", 50) == [(121, 121)]


def test_at_the_tip_there_is_no_row(log: Session) -> None:
    assert read_batch(log) is None
    write(log, [b"1"])
    assert read_batch(log) == (1, 1)
    assert read_batch(log) is None
    write(log, [b"2"])
    assert read_batch(log) == (2, 2)


def test_a_claimed_range_is_read_by_its_offsets(log: Session) -> None:
    write(log, [b"%d" % n for n in range(1, 101)])
    read_batch(log)
    claim = read_batch(log)
    assert claim == (51, 100)
    found = log.execute(BATCH, {"first": claim[0], "n": claim[1] - claim[0] + 1}).fetchall()
    assert found == [(n, b"%d" % n) for n in range(51, 101)]


def test_readers_of_a_group_share_and_groups_do_not(log: Session, connect: Connect) -> None:
    write(log, [b"x"] * 200)
    readers = [connect() for _ in range(4)]
    claims = [read_batch(reader) for reader in readers]
    assert claims == [(1, 50), (51, 100), (101, 150), (151, 200)]
    assert all(read_batch(reader) is None for reader in readers)
    assert read_batch(readers[0], group="g2") == (1, 50)


def test_the_progress_of_a_group_is_shown(log: Session) -> None:
    write(log, [b"x"] * 120)
    read_batch(log)
    lag = "select lag from trunkline.log_lag('topicpartition', 'g1')"
    assert ask(log, lag) == 70
