/* The present life, for those who only read.  TL410 when it has not begun: the one who pulls asks again with kv_hello(), which begins it. */
create or replace function trunkline._kv_life_present()
returns trunkline.kv_life language plpgsql stable as $$
declare
  present trunkline.kv_life;
begin
  select l.* into present from trunkline.kv_life l join trunkline._incarnation_present() i on i.incarnation = l.incarnation
   order by l.life desc limit 1;
  if not found then
    raise exception using errcode = 'TL410', message = 'another life of this copy is about to begin.', hint = 'Say kv_hello() first.';
  end if;
  return present;
end $$;
