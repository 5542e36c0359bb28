/* Refuse a table of which writes could pass unseen, and expressions that do not fit.  TL422. */
create or replace function trunkline._tube_check(tube trunkline.tube, wanted trunkline.tube_table)
returns void language plpgsql as $$
declare
  other regclass;
begin
  select i.inhparent::regclass into other from pg_inherits i where i.inhrelid = wanted.relation limit 1;
  if found then
    perform trunkline._raise('TL422', format('table %s is a part of %s: what is written there would not be seen.', wanted.relation, other), format('Attach %s.', other));
  end if;
  select r into other from trunkline._hook_tree(wanted.relation) r join pg_class c on c.oid = r where c.relkind not in ('r', 'p') limit 1;
  if found then
    perform trunkline._raise('TL422', format('%s, a part of table %s, is not a table of this server.', other, wanted.relation), 'Foreign partitions cannot be captured.');
  end if;
  perform trunkline._hook_check_expression(wanted.relation, wanted.shard_expression, 'int');
  perform trunkline._hook_check_expression(wanted.relation, wanted.condition, 'boolean');
  perform trunkline._hook_check_expression(wanted.relation, tube.condition, 'boolean');
end $$;
select trunkline._access('_tube_check(trunkline.tube, trunkline.tube_table)', 'writer');
