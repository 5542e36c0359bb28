"""The broker's hot functions look at few rows, whatever the planner knows of full slots."""

from __future__ import annotations

import re

import pytest
from tests.broker.groups import Member, last_delivery, match, subscribe
from tests.fixtures.asking import Session, ask
from tests.plans.explaining import KNOWN, Hot, fill_knowing

MANY = 30_000  # ticks, as ten busy minutes leave them in a slot
FILL = f"""
do $$
declare
  last trunkline.tick := trunkline._tick_latest('event');
  head bigint := trunkline.broker_head();
  delivered bigint := trunkline._broker_delivered();
begin
  create temporary table filling as
    select g as nth, g::text::xid8 as xid, nextval('trunkline.event_seq') as seq
      from generate_series(1, {MANY}) g;
  insert into trunkline.event (slot, xid_space, xid, seq, topic, key, payload)
  select trunkline._ring_current('event'), last.xid_space, f.xid, f.seq, 'orders', f.nth % 50, '1'
    from filling f;
  insert into trunkline.tick (slot, sequence, tick, first_position, n, xid_space, spaces_before,
                              snapshot, xids, seqs, tags, at)
  select trunkline._ring_current('tick'), 'event', last.tick + f.nth, head + f.nth, 1,
         last.xid_space, '{{}}', pg_current_snapshot(), array[f.xid], array[f.seq],
         array[hashtextextended('orders', 0)], clock_timestamp()
    from filling f;
  insert into trunkline.delivery (slot, group_id, lane, first, n, lowest, positions,
                                  subscriptions, at)
  select trunkline._ring_current('delivery'), s.group_id, f.nth % g.lanes, delivered + f.nth, 1,
         head + f.nth, array[head + f.nth], array[s.subscription], clock_timestamp()
    from filling f, trunkline.broker_subscription s join trunkline.broker_group g using (group_id);
  perform trunkline._cursor_move(trunkline._cursor_hold('broker:matcher'), head + {MANY},
                                 jsonb_build_object('deliveries', delivered + {MANY}));
  drop table filling;
end $$
"""


@pytest.fixture
def session(explaining: Session) -> Session:
    subscribe(explaining, condition={"topic": "orders"})
    return explaining


class HotBroker(Hot):
    """What a busy broker calls, with and without anything to do."""

    tables = re.compile(r"^(event|tick|delivery|cursor)_\d+$")

    def __init__(self, session: Session):
        super().__init__(session)
        self._member = Member(session, handler="bill")
        self._epoch = self._member.join()[0].epoch

    def calls(self) -> dict[str, str]:
        head = ask(self.session, "select trunkline.broker_head()")
        last = last_delivery(self.session)
        whose = "'billing', 'bill'"
        return {
            "publish": "broker_publish('orders', '1', '1')",
            "tick": "broker_tick()",
            "match": "broker_match()",
            "idle tick": "broker_tick()",
            "idle match": "broker_match()",
            "head": "broker_head()",
            "fetch the last": f"broker_fetch({whose}, '{{0}}', '{{{max(last - 20, 0)}}}')",
            "fetch from the middle": f"broker_fetch({whose}, '{{0}}', '{{{last // 2}}}', 10)",
            "idle fetch": f"broker_fetch({whose}, '{{0}}', '{{{last}}}')",
            "read": f"broker_read({whose}, 0, null, 10)",
            "commit": f"broker_commit({whose}, 0, {self._epoch}, {last})",
            "look": f"broker_look({whose}, array[0])",
            "forwardable": f"broker_forwardable({head - 1})",
            "scan": f"broker_scan(null, '{{}}', {head - 1})",
            "events": f"broker_events({head})",
            "catch up": "broker_catch_up()",
            "join": f"broker_join({whose}, '{self._member.process}')",
        }


@pytest.mark.parametrize("known", KNOWN)
def test_the_brokers_hot_functions_look_at_few_rows(session: Session, known: str) -> None:
    session.execute("select trunkline.broker_publish('orders', '1', '1')")
    match(session)
    hot = HotBroker(session)
    fill_knowing(hot, known, FILL)
    assert hot.greedy() == []
