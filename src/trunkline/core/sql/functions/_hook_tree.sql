/* A table and everything that inherits from it: its partitions, and theirs. */
create or replace function trunkline._hook_tree(relation regclass)
returns setof regclass language sql stable as $$
  with recursive tree (oid) as (
    select c.oid from pg_class c where c.oid = relation
    union
    select i.inhrelid from tree t join pg_inherits i on i.inhparent = t.oid)
  select t.oid::regclass from tree t order by t.oid;
$$;
select trunkline._access('_hook_tree(regclass)', 'reader');
