/* The same for the tube of an attachment; with own => true the owner of its table may do it too. */
create or replace function trunkline._tube_attachment_may(attachment int, privilege text, own boolean default false)
returns void language plpgsql stable as $$
declare
  asked record;
begin
  select t.tube, a.relation into asked from trunkline.tube_table a join trunkline.tube t using (tube_id) where a.attachment = _tube_attachment_may.attachment;
  if found and not (own and exists (select from pg_class c where c.oid = asked.relation and pg_has_role(trunkline._caller(), c.relowner, 'usage'))) then
    perform trunkline._tube_may(asked.tube, privilege);
  end if;
end $$;
