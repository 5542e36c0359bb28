/* Which tubes go where, and as which role; a role of NULL was not recorded: set the downstream again.
   options, which may hold passwords, are for roles that manage the tube. */
create or replace function trunkline.tube_downstreams()
returns table (tube text, kind text, options jsonb, changed_at timestamptz, role name)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.tube, d.kind, case when trunkline._may('tube:' || t.tube, '{manage}', trunkline._caller()) then d.options end, d.changed_at, d.role from trunkline.tube_downstream d join trunkline.tube t using (tube_id) order by t.tube;
$$;
comment on function trunkline.tube_downstreams() is 'Which tubes go where.';
select trunkline._access('tube_downstreams()', 'reader');
