"""The hot functions of tubes look at few rows, whatever the planner knows of full slots."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.plans.explaining import KNOWN, Hot, fill_knowing
from tests.tube.sql_steps import ORDERS, attach, ensure, head, join, member, tick

if TYPE_CHECKING:
    from tests.fixtures.asking import Session

MANY = 30_000  # ticks, as ten busy minutes leave them in a slot
FILL = f"""
do $$
declare
  last trunkline.tick;
  example trunkline.tube_entry;
begin
  select t.* into last from trunkline.tick t
   where t.sequence = 'tube_entry' order by t.tick desc limit 1;
  select e.* into example from trunkline.tube_entry e limit 1;
  create temporary table filling as
    select g as nth, g::text::xid8 as xid, nextval('trunkline.tube_seq') as seq
      from generate_series(1, {MANY}) g;
  insert into trunkline.tube_entry
  select (jsonb_populate_record(example, jsonb_build_object('xid', f.xid::text, 'seq', f.seq))).*
    from filling f;
  insert into trunkline.tick (slot, sequence, tick, first_position, n, xid_space, spaces_before,
                              snapshot, xids, seqs, tags, at)
  select trunkline._ring_current('tick'), 'tube_entry', last.tick + f.nth,
         last.first_position + last.n - 1 + f.nth, 1, last.xid_space, '{{}}', pg_current_snapshot(),
         array[f.xid], array[f.seq], last.tags[1:1], clock_timestamp()
    from filling f;
  drop table filling;
end $$
"""


@pytest.fixture
def session(explaining: Session) -> Session:
    """A table in a tube of one lane, whose first row was touched."""
    explaining.execute(ORDERS)
    ensure(explaining, lanes=1)
    attach(explaining)
    explaining.execute("insert into orders values (1, 'new', 1, 1)")
    tick(explaining)
    return explaining


class HotTube(Hot):
    """What a tube calls that follows a busy table, with and without anything to do."""

    tables = re.compile(r"^(tube_entry|tick|cursor)_\d+$")

    def __init__(self, session: Session):
        super().__init__(session)
        self._process = member(session)
        (self._share,) = join(session, self._process)

    def calls(self) -> dict[str, str]:
        last = head(self.session)
        middle = max(last // 2, 1)
        return {
            "touch": "tube_touch('feed', relation => null, keys => '{1}', shard => 0)",
            "tick": "tube_tick()",
            "idle tick": "tube_tick()",
            "head": "tube_head()",
            "read the last": f"tube_read('feed', 0, 0, {last}, {last})",
            "read from the middle": f"tube_read('feed', 0, 0, {middle}, {middle + 20}, 10)",
            "read no backfill": f"tube_read('feed', 0, 1, {last}, {last})",
            "acknowledge": f"tube_ack('feed', 0, {self._share.epoch}, {last - 1})",
            "join": f"tube_join('feed', '{self._process}')",
        }


@pytest.mark.parametrize("known", KNOWN)
def test_the_hot_functions_of_tubes_look_at_few_rows(session: Session, known: str) -> None:
    hot = HotTube(session)
    fill_knowing(hot, known, FILL)
    assert hot.greedy() == []
