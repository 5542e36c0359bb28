"""The hot functions of keys look at few rows, whatever the planner knows of a full store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.kv.sql_steps import head, patch, put, tick
from tests.plans.explaining import KNOWN, Hot, fill_knowing

if TYPE_CHECKING:
    from tests.fixtures.asking import Session

KEYS = 100_000
MANY = 20_000  # ticks
FILL = f"""
do $$
declare
  last trunkline.tick := trunkline._tick_latest('kv_change');
  example trunkline.kv_entry;
begin
  select e.* into example from trunkline.kv_entry e where e.key = 'k';
  insert into trunkline.kv_entry (namespace, key, value, stamp, origin, xid_space, xid)
  select 'default', 'key/' || to_char(g, 'FM000000'), '1', example.stamp, example.origin,
         example.xid_space, example.xid from generate_series(1, {KEYS}) g;
  insert into trunkline.kv_counter (namespace, key, field, origin, generation, version, sum)
  select 'default', 'counted/' || g, 'n', 1, 1, 1, 1 from generate_series(1, {MANY}) g;
  create temporary table filling as
    select g as nth, g::text::xid8 as xid, nextval('trunkline.kv_seq') as seq
      from generate_series(1, {MANY}) g;
  insert into trunkline.kv_change (slot, xid_space, xid, seq, namespace, key, via)
  select trunkline._ring_current('kv_change'), last.xid_space, f.xid, f.seq, 'default',
         'key/' || to_char(f.nth, 'FM000000'), example.origin from filling f;
  insert into trunkline.tick (slot, sequence, tick, first_position, n, xid_space, spaces_before,
                              snapshot, xids, seqs, tags, at)
  select trunkline._ring_current('tick'), 'kv_change', last.tick + f.nth,
         last.first_position + last.n - 1 + f.nth, 1, last.xid_space, '{{}}', pg_current_snapshot(),
         array[f.xid], array[f.seq], last.tags[1:1], clock_timestamp()
    from filling f;
  drop table filling;
end $$
"""


@pytest.fixture
def session(explaining: Session) -> Session:
    """An instance of a parade with a key and a counter, from which another pulls."""
    explaining.execute("select trunkline._kv_life()")
    for zone in "ab":
        explaining.execute("select trunkline.kv_instance_put(%s, 's', 'dbname=x')", [zone])
    explaining.execute("select trunkline.kv_instance_here('a', 's')")
    explaining.execute("select trunkline.kv_hello('b/s')")
    explaining.execute("select trunkline.kv_copy_begin('b/s', 7)")
    put(explaining, "k", 1)
    patch(explaining, {"n": 1}, "n")
    tick(explaining)
    return explaining


class HotKeys(Hot):
    """What clients and pullers call of a full store, with and without anything to do."""

    tables = re.compile(r"^(kv_entry|kv_counter|((kv_change|tick|cursor)_\d+))$")

    def calls(self) -> dict[str, str]:
        last = head(self.session)
        middle = max(last // 2, 1)
        return {
            "get": "kv_get('default', 'k')",
            "get a counter": "kv_get('default', 'n')",
            "get what is not there": "kv_get('default', 'nobody')",
            "get many": "kv_get_many('default', '{k,n,key/000005}')",
            "put": "kv_put('default', 'k', '2')",
            "put by a policy": "kv_put('default', 'k', '2', ttl => '1 hour')",
            "put many": "kv_put_many('default', '{k,n,m}', array['1', '2', '3']::jsonb[])",
            "patch": "kv_patch_numeric('default', 'p', '{\"n\": 1}')",
            "delete": "kv_delete('default', 'd')",
            "scan": "kv_scan('default', 'key/0', max_keys => 10)",
            "scan on": "kv_scan('default', 'key/', 'key/050000', 10)",
            "scan to": "kv_scan('default', 'key/', 'key/050000', 1000, 'key/050010')",
            "tick": "kv_tick()",
            "idle tick": "kv_tick()",
            "head": "kv_head()",
            "changes at the end": f"kv_changes('default', {last - 1})",
            "changes of the middle": f"kv_changes('default', {middle}, max_changes => 10)",
            "no changes": f"kv_changes('default', {last})",
            "export the end": f"kv_export('b/s', 7, {last - 1})",
            "export the middle": f"kv_export('b/s', 7, {middle}, max_changes => 10)",
            "export nothing": f"kv_export('b/s', 7, {last})",
            "copy": "kv_copy('b/s', 7, 'default', 'key/050000', max_keys => 10)",
            "confirm": f"kv_confirm('b/s', 7, {last})",
            "expire": "kv_expire()",
            "release": "kv_release()",
            "forget": "kv_forget()",
        }


@pytest.mark.parametrize("known", KNOWN)
def test_the_hot_functions_of_keys_look_at_few_rows(session: Session, known: str) -> None:
    hot = HotKeys(session)
    fill_knowing(hot, known, FILL)
    assert hot.greedy() == []
