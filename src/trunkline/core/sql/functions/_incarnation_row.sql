/* The row of this life of the schema, made on first use.
   Only the latest row counts: whoever was restored elsewhere and comes back begins a new life. */
create or replace function trunkline._incarnation_row()
returns trunkline.incarnation language plpgsql as $$
declare
  latest trunkline.incarnation;
begin
  for attempt in 1 .. 2 loop
    select i.* into latest from trunkline._incarnation_present() i;
    if found then
      return latest;
    end if;
    if attempt = 1 then
      perform trunkline._lock_briefly();
      lock table trunkline.incarnation in share row exclusive mode;
    end if;
  end loop;
  select i.* into latest from trunkline.incarnation i order by i.incarnation desc limit 1;
  insert into trunkline.incarnation as i (incarnation, follows, system_identifier, timeline, database, schema, xid_space)
  values (case when latest.incarnation is null then 1 else latest.incarnation + 1 + floor(random() * 65536)::int end,
          coalesce(latest.incarnation, 0), trunkline._system_identifier(), trunkline._timeline(), trunkline._database_oid(), 'trunkline'::regnamespace,
          trunkline._xid_space())
  on conflict on constraint incarnation_follows do nothing  -- REPEATABLE READ: reported as 40001
  returning i.* into strict latest;
  return latest;
end $$;
