/* Which tubes go where. */
create or replace function trunkline.tube_downstreams()
returns table (tube text, kind text, options jsonb, changed_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.tube, d.kind, d.options, d.changed_at from trunkline.tube_downstream d join trunkline.tube t using (tube_id) order by t.tube;
$$;
comment on function trunkline.tube_downstreams() is 'Which tubes go where.';
select trunkline._access('tube_downstreams()', 'reader');
