/* A table was truncated: everything of it that is older has to go downstream. */
create or replace function trunkline._tube_capture_truncate(attachment int)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  attached trunkline.tube_table;
begin
  select a.* into attached from trunkline.tube_table a where a.attachment = _tube_capture_truncate.attachment;
  if found then
    perform trunkline._tube_put_control(attached, 'truncate', null, 0);
  end if;
end $$;
select trunkline._access('_tube_capture_truncate(int)', 'public');
