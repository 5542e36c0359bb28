/* Refuse a table of which writes could pass unseen, and a condition that does not fit.  TL422. */
create or replace function trunkline._broker_watch_check(wanted trunkline.broker_watched_table)
returns void language sql as $$
  select trunkline._hook_check_table(wanted.relation, 'Watch');
  select trunkline._hook_check_expression(wanted.relation, wanted.condition, 'boolean');
$$;
select trunkline._access('_broker_watch_check(trunkline.broker_watched_table)', 'writer');
