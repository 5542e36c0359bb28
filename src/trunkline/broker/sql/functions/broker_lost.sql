/* How many deliveries have left before a group had read them, since it was made; for every group. */
create or replace function trunkline.broker_lost()
returns table (group_name text, deliveries bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select g.group_name, g.lost from trunkline.broker_group g order by 1;
$$;
comment on function trunkline.broker_lost() is 'How many deliveries have left before each group had read them.';
select trunkline._access('broker_lost()', 'reader');
