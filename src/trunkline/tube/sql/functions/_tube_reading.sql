/* What it takes to read the rows of an attachment, also of one that ended: its row, in which the condition is that of the tube and its own
   together, the roles whose expressions these are, and the owner of the table.  One statement, so that no condition is taken for that of another role.  When its
   table is gone: the attachment that took its name in the tube, for their documents are the same; else its relation is NULL.  TL404. */
create or replace function trunkline._tube_reading(attachment int, out attached trunkline.tube_table, out authors name[], out owner name)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  asked trunkline.tube_table := trunkline._tube_attachment(attachment);
  present record;
begin
  select a as attached, a.role || array(select t.role where t.condition is not null) as authors, pg_get_userbyid(c.relowner) as owner,
         trunkline._tube_conditions(a, t) as condition
    into present
    from trunkline.tube_table a join trunkline.tube t using (tube_id) join pg_class c on c.oid = a.relation
   where a.tube_id = asked.tube_id and (a.attachment = asked.attachment or a.relation_name = asked.relation_name)
   order by a.attachment = asked.attachment desc, a.attachment desc limit 1;
  if found then
    attached := present.attached;
    attached.condition := present.condition;
    authors := present.authors;
    owner := present.owner;
  else
    asked.relation := null;
    attached := asked;
  end if;
end $$;
select trunkline._access('_tube_reading(int)', 'reader');
