/* The first position of the first tick that was taken at a time or later; NULL when all are older.  Times of ticks never
   run backwards, so that a search by halves finds it. */
create or replace function trunkline._tick_first_since(sequence text, since timestamptz)
returns bigint language plpgsql stable set enable_seqscan = off as $$
declare
  low bigint := (select t.tick from trunkline.tick t where t.sequence = $1 order by t.tick limit 1);
  high bigint := (trunkline._tick_latest($1)).tick + 1;
  middle record;
begin
  while low < high loop
    select t.tick, t.at into middle from trunkline.tick t where t.sequence = $1 and t.tick >= (low + high) / 2 order by t.tick limit 1;
    if middle.at >= since then
      high := (low + high) / 2;
    else
      low := middle.tick + 1;
    end if;
  end loop;
  return (select t.first_position from trunkline.tick t where t.sequence = $1 and t.tick >= low order by t.tick limit 1);
end $$;
