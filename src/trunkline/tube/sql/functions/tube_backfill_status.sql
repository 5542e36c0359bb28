/* Backfills of a tube, newest first: how far they are and what they wait for.  TL404. */
create or replace function trunkline.tube_backfill_status(tube text default null)
returns table (backfill bigint, tube text, relation text, status text, keys_done bigint, keys_estimate bigint, order_by text, chunk int, throttle interval,
               started_at timestamptz, stepped_at timestamptz, finished_at timestamptz, waits_for text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select from trunkline._tube_row($1) where $1 is not null;
  select b.backfill, t.tube, a.relation_name, b.status, b.keys_done, greatest(b.keys_estimate, b.keys_done), b.order_by, b.chunk, b.throttle,
         b.started_at, b.stepped_at, b.finished_at, b.waits_for
    from trunkline.tube_backfill b join trunkline.tube_table a using (attachment) join trunkline.tube t using (tube_id)
   where $1 is null or t.tube = $1 order by b.backfill desc;
$$;
comment on function trunkline.tube_backfill_status(text) is 'Backfills of a tube: how far they are and what they wait for.';
select trunkline._access('tube_backfill_status(text)', 'reader');
