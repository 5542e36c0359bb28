/* Drop a tube and detach all its tables.  Errors: TL403, TL404, TL409 while entries are not delivered, unless force. */
create or replace function trunkline.tube_drop(tube text, force boolean default false)
returns void language plpgsql as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  waiting bigint;
begin
  -- from here on nobody writes: what is counted below is all there is
  perform trunkline._tube_untrigger(array(select a from trunkline._tube_tables(present.tube_id) a));
  if force is not true then
    waiting := trunkline._tube_undelivered(present);
    if waiting > 0 then
      raise exception using errcode = 'TL409', message = format('tube "%s" has %s not delivered.', tube, trunkline._counted(waiting, 'entry that is', 'entries that are')),
        hint = 'Let a worker finish, or drop it with force => true.', detail = jsonb_build_object('entries', waiting)::text;
    end if;
  end if;
  perform trunkline._tube_delete(present);
end $$;
comment on function trunkline.tube_drop(text, boolean) is 'Drop a tube and detach all its tables.';
select trunkline._access('tube_drop(text, boolean)', 'writer');
