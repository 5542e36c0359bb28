/* The row of an attachment, also of one that ended, or TL404. */
create or replace function trunkline._tube_attachment(attachment int)
returns trunkline.tube_table language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube_table;
begin
  select a.* into present from trunkline.tube_table a where a.attachment = _tube_attachment.attachment;
  if not found then
    raise exception using errcode = 'TL404', message = case when attachment = 0 then 'the keys are of no table: they were touched without one.'
      else format('there is no attachment %s.', coalesce(attachment::text, 'NULL')) end,
      hint = 'Name the table when keys are touched by hand.';
  end if;
  return present;
end $$;
select trunkline._access('_tube_attachment(int)', 'reader');
