/* Note that a table carries the triggers of an attachment.  Returns whether it came late: others had them before. */
create or replace function trunkline._tube_hook_put(attachment int, relation regclass)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  late boolean := exists (select from trunkline.tube_hook h join trunkline.tube_table a using (attachment)
                           where h.attachment = _tube_hook_put.attachment and h.relation = a.relation);
begin
  insert into trunkline.tube_hook (attachment, relation) values (_tube_hook_put.attachment, _tube_hook_put.relation)
  on conflict on constraint tube_hook_pkey do nothing;
  return late;
end $$;
select trunkline._access('_tube_hook_put(int, regclass)', 'writer');
