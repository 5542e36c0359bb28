/* Refuse a table of which writes could pass unseen by triggers on it.  The advice is what to do with its parent.  TL422. */
create or replace function trunkline._hook_check_table(relation regclass, advice text)
returns void language plpgsql as $$
declare
  other regclass;
begin
  select i.inhparent::regclass into other from pg_inherits i where i.inhrelid = relation limit 1;
  if found then
    raise exception using errcode = 'TL422', message = format('table %s is a part of %s: what is written there would not be seen.', relation, other),
      hint = format('%s %s.', advice, other);
  end if;
  select r into other from trunkline._hook_tree(relation) r join pg_class c on c.oid = r where c.relkind not in ('r', 'p') limit 1;
  if found then
    raise exception using errcode = 'TL422', message = format('%s, a part of table %s, is not a table of this server.', other, relation),
      hint = 'Foreign partitions cannot have the triggers that this takes.';
  end if;
end $$;
select trunkline._access('_hook_check_table(regclass, text)', 'writer');
