/* The xid space of now.  Read only, so that no writer waits for another. */
create or replace function trunkline._xid_space()
returns int language plpgsql stable as $$
declare
  latest trunkline.incarnation;
begin
  select i.* into latest from trunkline.incarnation i order by i.incarnation desc limit 1;
  return trunkline._xid_space_after(latest);
end $$;
