/* Watched tables are objects of the role that watched them: "read" lets a role see their events.  It is not open to the base roles.  Tables that are
   watched already belong to their owners. */
select trunkline._object_kind('table', '{read}', '{}');
insert into trunkline.object (object, kind, name, owner)
select 'table:' || w.relation_name, 'table', w.relation_name, pg_get_userbyid(c.relowner)
  from trunkline.broker_watched_table w left join pg_catalog.pg_class c on c.oid = w.relation
on conflict on constraint object_pkey do nothing;
create trigger broker_watched_table_object after insert or update of relation_name or delete on trunkline.broker_watched_table
  for each row execute function trunkline._object_follow('table', 'r.relation_name');
