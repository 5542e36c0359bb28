/* The place of the first event at hand on which a condition fails, found by halving; NULL when it does not. */
create or replace function trunkline._match_first_bad(condition trunkline.broker_condition, alone trunkline.broker_subscription default null)
returns int language plpgsql as $$
declare
  suspects int4range := (select int4range(min(b.place), max(b.place), '[]') from pg_temp.trunkline_batch b);
  middle int;
begin
  if trunkline._match_fails(condition, alone, suspects) is null then
    return null;
  end if;
  while upper(suspects) - lower(suspects) > 1 loop
    middle := (lower(suspects) + upper(suspects)) / 2;
    suspects := case when trunkline._match_fails(condition, alone, int4range(lower(suspects), middle)) is not null
                     then int4range(lower(suspects), middle) else int4range(middle, upper(suspects)) end;
  end loop;
  return lower(suspects);
end $$;
