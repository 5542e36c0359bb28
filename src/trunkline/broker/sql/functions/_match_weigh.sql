/* Read the next events, or those of the subscription that catches up, to the last byte, but without a condition: when that takes too
   long already it is the fault of none. */
create or replace function trunkline._match_weigh(max_events int, late boolean)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp set jit = off as $$
declare
  done bigint := case when late
    then greatest((trunkline._match_late()).caught_up_to, (select min(t.first_position) - 1 from trunkline.tick t where t.sequence = 'event'))
    else trunkline._broker_matched() end;
begin
  perform trunkline._match_prepare();
  perform trunkline._match_take(done + 1, max_events);
  perform sum(trunkline._event_text_bytes(b.payload, b.metadata)) from pg_temp.trunkline_batch b;
end $$;
select trunkline._access('_match_weigh(int, boolean)', 'admin');
