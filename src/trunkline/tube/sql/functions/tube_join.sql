/* Take part in working a tube, and learn which lanes are yours: epoch, what is done of live and backfill entries, and
   whether the lane is more than a fair share and should be given back.  Call it again every few seconds; it writes
   nothing when nothing changed.  Errors: TL404, TL422, TL423 without a living lease. */
create or replace function trunkline.tube_join(tube text, process uuid, member text default '')
returns table (lane int, lanes int, epoch bigint, live_up_to bigint, backfill_up_to bigint, surplus boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  shares jsonb;
begin
  perform trunkline._tube_may(present.tube, 'consume');
  if member is null then
    perform trunkline._raise('TL422', 'a member has a name, which may be empty; got NULL.');
  end if;
  select jsonb_agg(s) into shares
    from trunkline._party_share(format('tube:%s', present.tube_id),
           array(select trunkline._tube_resource(present, g) from generate_series(0, present.lanes - 1) g), process, member) s;
  -- a statement of its own: it sees the last acknowledgement before the hand-over, or for a change of
  -- the lanes, after which those of before have no position
  return query
    select s.place - 1, present.lanes, s.epoch, p.live, p.back, s.surplus
      from jsonb_to_recordset(shares) s (place int, epoch bigint, surplus boolean)
      cross join lateral (select trunkline._tube_position(present, s.place - 1, 0) as live, trunkline._tube_position(present, s.place - 1, 1) as back) p
     where p.live is not null and p.back is not null
     order by s.place;
end $$;
comment on function trunkline.tube_join(text, uuid, text) is 'Take part in working a tube: the lanes that are yours, with epoch and positions.';
select trunkline._access('tube_join(text, uuid, text)', 'reader');
