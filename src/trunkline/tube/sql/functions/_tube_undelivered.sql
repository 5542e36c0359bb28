/* How many entries of a tube are not acknowledged, those included that have no position yet. */
create or replace function trunkline._tube_undelivered(tube trunkline.tube)
returns bigint language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce((select sum(s.live_entries + s.backfill_entries) from trunkline.tube_stats(tube.tube) s), 0)
       + (select count(*) from trunkline._tube_unnumbered(tube.tube_id));
$$;
select trunkline._access('_tube_undelivered(trunkline.tube)', 'writer');
