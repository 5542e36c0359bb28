/* The row of an attachment, also of one that ended, or TL404.  When its table is gone: the one that took its
   name in the tube, for their documents are the same; else its relation is NULL. */
create or replace function trunkline._tube_attachment_present(attachment int)
returns trunkline.tube_table language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  asked trunkline.tube_table := trunkline._tube_attachment(attachment);
  present trunkline.tube_table;
begin
  select a.* into present from trunkline.tube_table a join pg_class c on c.oid = a.relation
   where a.tube_id = asked.tube_id and (a.attachment = asked.attachment or a.relation_name = asked.relation_name)
   order by a.attachment = asked.attachment desc, a.attachment desc limit 1;
  if not found then
    asked.relation := null;
    return asked;
  end if;
  return present;
end $$;
select trunkline._access('_tube_attachment_present(int)', 'reader');
