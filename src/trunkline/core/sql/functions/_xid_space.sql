/* Which xids are comparable with those given out now: rows of a sequence carry it.  Read only, so that no writer
   waits for another: before the row of this life is noted, everybody computes the number that it will get.  It
   depends on the server, the database, the schema and the life before, so that no two lives share one. */
create or replace function trunkline._xid_space()
returns int language plpgsql stable as $$
declare
  identifier bigint := (pg_control_system()).system_identifier;
  base oid := (select d.oid from pg_database d where d.datname = current_database());
  home oid := 'trunkline'::regnamespace;
  latest trunkline.incarnation;
begin
  select i.* into latest from trunkline.incarnation i order by i.incarnation desc limit 1;
  if (latest.system_identifier, latest.database, latest.schema) = (identifier, base, home) then
    return latest.xid_space;
  end if;
  return hashtext(format('%s %s %s %s', identifier, base, home, latest.incarnation));
end $$;
