/* Microseconds since 1970 by the hybrid clock, which all zones share: the clock of this server and how far the parade is ahead of it (see kv_heard()).  In plpgsql,
   which is called at a third of the price. */
create or replace function trunkline._kv_now()
returns bigint language plpgsql volatile as $$
begin
  return trunkline._kv_clock() + (select c.lead from trunkline.kv_clock c);
end $$;
