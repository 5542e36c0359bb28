/* The row of this life of the server, made on first use.  About 15 microseconds: the control file is read
   each time, because a pooled session outlives a promotion and a setting could be forged. */
create or replace function trunkline._incarnation_row()
returns trunkline.incarnation language plpgsql as $$
declare
  identifier bigint := (pg_control_system()).system_identifier;
  line int := ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int;
  found_row trunkline.incarnation;
begin
  select i.* into found_row from trunkline.incarnation i
   where i.system_identifier = identifier and i.timeline = line;
  if not found then
    lock table trunkline.incarnation in share row exclusive mode;
    insert into trunkline.incarnation (system_identifier, timeline, xid_space)
    values (identifier, line, coalesce(
      (select min(i.xid_space) from trunkline.incarnation i where i.system_identifier = identifier),
      (select max(i.xid_space) + 1 from trunkline.incarnation i), 1))
    on conflict on constraint incarnation_key do nothing;
    select i.* into strict found_row from trunkline.incarnation i
     where i.system_identifier = identifier and i.timeline = line;
  end if;
  return found_row;
end $$;
