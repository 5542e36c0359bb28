/* The answer to a question of _live_question() for a role and settings; both are as before when it returns.  Without a question every row is seen.
   Functions that a policy calls are code of the owner of the table: they run as the role and cannot return to the role of the session, unless the
   role may act as that anyway. */
create or replace function trunkline._live_answer(question text, role name, settings jsonb, images jsonb[], numbers int[])
returns boolean[] language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  before text := current_setting('role');
  former jsonb;
  answer boolean[];
begin
  if question is null then
    return array(select images[n] is not null from unnest(numbers) n);
  end if;
  former := trunkline._live_settings(settings);
  if trunkline._may_act(role, session_user) then
    perform set_config('role', role, true);
    execute question into answer using images, numbers;
    perform set_config('role', before, true);
  else
    answer := (select d.places::boolean[] from trunkline._run_as(role, format('select null::text[], null::text[], (%s)::int[], 0::bigint', question), images::text[], numbers) d);
  end if;
  perform trunkline._live_settings(former);
  return answer;
end $$;
select trunkline._access('_live_answer(text, name, jsonb, jsonb[], int[])', 'reader');
