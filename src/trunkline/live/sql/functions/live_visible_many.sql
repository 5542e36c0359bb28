/* live_visible() for many who are of one role and have settings of their own, with one call.  numbers: for each of them which of the rows are asked for,
   counted from 1.  An answer for each of them in their order; one for whom a policy fails has an error and its SQLSTATE instead, and harms no other.
   When it takes long there are fewer answers, at least one: ask again for the others.  oldest: the lowest id of the events that the rows come from.
   Errors: as live_visible(), and TL422 for lists of different lengths. */
create or replace function trunkline.live_visible_many(relation regclass, role name, settings jsonb[], images jsonb[], numbers jsonb, oldest bigint default null)
returns table (visible boolean[], state text, error text) language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  until timestamptz := clock_timestamp() + interval '200 milliseconds';
  question text := trunkline._live_question(relation, role);
begin
  perform trunkline._live_check(relation, oldest);  -- after the policy was put into words: its columns have the names of this moment or an earlier one
  if jsonb_typeof(numbers) is distinct from 'array' or jsonb_array_length(numbers) <> cardinality(settings) then
    raise exception using errcode = 'TL422', message = 'settings and numbers are lists of the same length.';
  end if;
  for place in 1 .. cardinality(settings) loop
    begin
      visible := trunkline._live_answer(question, role, settings[place], images, array(select n::int from jsonb_array_elements_text(numbers -> (place - 1)) n));
      state := null;
      error := null;
    exception when others then
      visible := null;
      state := sqlstate;
      error := sqlerrm;
    end;
    return next;
    exit when clock_timestamp() > until;
  end loop;
end $$;
comment on function trunkline.live_visible_many(regclass, name, jsonb[], jsonb[], jsonb, bigint) is 'Which rows of a live table each of many who are of one role may see.';
select trunkline._access('live_visible_many(regclass, name, jsonb[], jsonb[], jsonb, bigint)', 'reader');
