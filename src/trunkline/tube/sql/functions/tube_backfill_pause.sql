/* Pause the running backfills of a tube, or go on with the paused ones.  Returns how many. */
create or replace function trunkline.tube_backfill_pause(tube text, pause boolean default true)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  changed int;
begin
  perform trunkline._tube_may(present.tube, 'append');
  if pause is null then
    perform trunkline._raise('TL422', 'pause is true or false, got NULL.');
  end if;
  update trunkline.tube_backfill b set status = case when pause then 'paused' else 'running' end
    from trunkline.tube_table a
   where a.attachment = b.attachment and a.tube_id = present.tube_id and b.status = case when pause then 'running' else 'paused' end;
  get diagnostics changed = row_count;
  return changed;
end $$;
comment on function trunkline.tube_backfill_pause(text, boolean) is 'Pause the backfills of a tube, or go on with them.';
select trunkline._access('tube_backfill_pause(text, boolean)', 'writer');
