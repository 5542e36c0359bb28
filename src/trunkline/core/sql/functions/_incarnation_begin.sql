/* Begin another incarnation.  latest: the one that the caller knows; nothing is done when another followed it already.
   Locks: the table of incarnations, as one begins. */
create or replace function trunkline._incarnation_begin(latest trunkline.incarnation)
returns trunkline.incarnation language plpgsql as $$
declare
  present trunkline.incarnation;
begin
  perform trunkline._lock_briefly();
  lock table trunkline.incarnation in share row exclusive mode;
  select i.* into present from trunkline.incarnation i order by i.incarnation desc limit 1;
  if present.incarnation is distinct from latest.incarnation then
    return present;
  end if;
  insert into trunkline.incarnation as i (incarnation, follows, system_identifier, timeline, database, schema, xid_space)
  values (case when latest.incarnation is null then 1 else latest.incarnation + 1 + floor(random() * 65536)::int end,
          coalesce(latest.incarnation, 0), trunkline._system_identifier(), trunkline._timeline(), trunkline._database_oid(), 'trunkline'::regnamespace,
          trunkline._xid_space())
  on conflict on constraint incarnation_follows do nothing  -- REPEATABLE READ: reported as 40001
  returning i.* into strict present;
  return present;
end $$;
