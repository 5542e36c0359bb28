/* Does the query of a condition fail on some of the events at hand?  NULL when not, otherwise the error. */
create or replace function trunkline._match_fails(kind text, statement text, events int4range)
returns text language plpgsql as $$
begin
  perform count(*) from trunkline._match_run(kind, format('%s and e.place <@ %L::int4range', statement, events)) r;
  return null;
exception when others then
  return format('%s (%s)', sqlerrm, sqlstate);
end $$;
