/* The place of a label in the order of an enum, which is named by its number: what is called like the type by now is nothing to us.
   A label that is not of it is an error, 22P02. */
create or replace function trunkline._live_rank(enum oid, label text)
returns real language plpgsql stable as $$
declare
  place real := (select e.enumsortorder from pg_enum e where e.enumtypid = enum and e.enumlabel = label);
begin
  if place is null and label is not null then
    raise invalid_text_representation using message = format('%s is not a label of the enum', quote_literal(left(label, 80)));
  end if;
  return place;
end $$;
