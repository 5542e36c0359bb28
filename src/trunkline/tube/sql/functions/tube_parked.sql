/* Keys that were set aside, with their error.  TL404. */
create or replace function trunkline.tube_parked(tube text default null)
returns table (tube text, relation text, shard int, key text, attempts int, error text, parked_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select from trunkline._tube_row($1) where $1 is not null;
  select t.tube, a.relation_name, p.shard, p.key, p.attempts, p.error, p.parked_at
    from trunkline.tube_parked p join trunkline.tube t using (tube_id) left join trunkline.tube_table a using (attachment)
   where $1 is null or t.tube = $1 order by p.parked_at;
$$;
comment on function trunkline.tube_parked(text) is 'Keys that were set aside, with their error.';
select trunkline._access('tube_parked(text)', 'reader');
