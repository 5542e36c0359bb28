/* Which xids are comparable with those given out now: rows of a sequence carry it.  After a failover it is known
   at once; only the first write after a restore into another server makes a row, and others wait for its commit. */
create or replace function trunkline._xid_space()
returns int language plpgsql as $$
declare
  identifier bigint := (pg_control_system()).system_identifier;
  latest trunkline.incarnation;
begin
  select i.* into latest from trunkline.incarnation i order by i.incarnation desc limit 1;
  if latest.system_identifier = identifier then
    return latest.xid_space;
  end if;
  return (trunkline._incarnation_row()).xid_space;
end $$;
