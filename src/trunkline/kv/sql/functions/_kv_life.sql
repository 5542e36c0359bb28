/* The present life of this copy, made on first use: another incarnation is another life. */
create or replace function trunkline._kv_life()
returns trunkline.kv_life language plpgsql as $$
declare
  present trunkline.kv_life;
begin
  select l.* into present from trunkline.kv_life l join trunkline._incarnation_present() i on i.incarnation = l.incarnation
   order by l.life desc limit 1;
  if not found then
    present := trunkline._kv_life_begin();
  end if;
  return present;
end $$;
