/* Whether compaction has taken everything that came after an offset: nobody will ever read it, nor commit it. */
create or replace function trunkline._log_done_after(topic text, part trunkline.log_partition, up_to bigint)
returns boolean language plpgsql as $$
begin
  return up_to + 1 >= part.first_offset
     and not exists (select from trunkline.log_fetch(topic, part.partition, up_to + 1, 1, 1));
exception when sqlstate 'TL404' or sqlstate 'TL410' then
  return false;  -- it was deleted or cut off while we looked
end $$;
