/* Refuse a table of which writes could pass unseen, and a condition that does not fit.  TL422. */
create or replace function trunkline._broker_watch_check(wanted trunkline.broker_watched_table)
returns void language plpgsql as $$
declare
  other regclass;
begin
  select i.inhparent::regclass into other from pg_inherits i where i.inhrelid = wanted.relation limit 1;
  if found then
    perform trunkline._raise('TL422', format('table %s is a part of %s: what is written there would not be seen.', wanted.relation, other), format('Watch %s.', other));
  end if;
  select r into other from trunkline._hook_tree(wanted.relation) r join pg_class c on c.oid = r where c.relkind not in ('r', 'p') limit 1;
  if found then
    perform trunkline._raise('TL422', format('%s, a part of table %s, is not a table of this server.', other, wanted.relation), 'Foreign partitions cannot be watched.');
  end if;
  perform trunkline._hook_check_expression(wanted.relation, wanted.condition, 'boolean');
end $$;
select trunkline._access('_broker_watch_check(trunkline.broker_watched_table)', 'writer');
