/* Drop a tube and detach all its tables.  TL409 while entries are not delivered, unless force. */
create or replace function trunkline.tube_drop(tube text, force boolean default false)
returns void language plpgsql as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  attached trunkline.tube_table;
  waiting bigint;
begin
  if not force then
    select sum(s.live_entries + s.backfill_entries) into waiting from trunkline.tube_stats(tube) s;
    if waiting > 0 then
      perform trunkline._raise('TL409', format('tube "%s" has %s entries that are not delivered.', tube, waiting),
        'Let a worker finish, or drop it with force => true.', jsonb_build_object('entries', waiting));
    end if;
  end if;
  for attached in select a.* from trunkline._tube_tables(present.tube_id) a loop
    perform trunkline.tube_detach(tube, attached.relation);
  end loop;
  perform trunkline._tube_delete(present);
end $$;
comment on function trunkline.tube_drop(text, boolean) is 'Drop a tube and detach all its tables.';
select trunkline._access('tube_drop(text, boolean)', 'writer');
