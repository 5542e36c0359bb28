/* The row of this incarnation, made on first use.  Only the latest row counts: a database that was restored elsewhere and comes back begins
   another one. */
create or replace function trunkline._incarnation_row()
returns trunkline.incarnation language plpgsql as $$
declare
  present trunkline.incarnation;
  latest trunkline.incarnation;
begin
  for attempt in 1 .. 2 loop
    select i.* into present from trunkline._incarnation_present() i;
    if found then
      return present;
    end if;
    if attempt = 1 then
      perform trunkline._lock_briefly();
      lock table trunkline.incarnation in share row exclusive mode;
    end if;
  end loop;
  select i.* into latest from trunkline.incarnation i order by i.incarnation desc limit 1;
  return trunkline._incarnation_begin(latest);
end $$;
