/* Tables of an attachment (the table and its partitions) with a trigger of it that does not fire when people write. */
create or replace function trunkline._tube_disabled(attached trunkline.tube_table)
returns setof regclass language sql stable as $$
  select r from trunkline._hook_tree(attached.relation) r
   where exists (select from pg_trigger g where g.tgrelid = r and g.tgname like format(E'trunkline\\_tube\\_%s\\_%%', attached.attachment)
                    and g.tgenabled in ('D', 'R'));
$$;
comment on function trunkline._tube_disabled(trunkline.tube_table) is 'Tables of an attachment with a trigger of it that is disabled.';
select trunkline._access('_tube_disabled(trunkline.tube_table)', 'reader');
