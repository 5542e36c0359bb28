/* The latest of the schema's lives, if it is this one.  A standby lives the latest that it heard of: what a newer one
   appends comes after the row that notes it.  One SELECT, so that it becomes a part of its caller's. */
create or replace function trunkline._incarnation_present()
returns setof trunkline.incarnation language sql stable as $$
  select i.* from (select l.* from trunkline.incarnation l order by l.incarnation desc limit 1) i
   where i.system_identifier = trunkline._system_identifier() and i.timeline = coalesce(trunkline._timeline(), i.timeline)
     and i.database = trunkline._database_oid() and i.schema = 'trunkline'::regnamespace;
$$;
