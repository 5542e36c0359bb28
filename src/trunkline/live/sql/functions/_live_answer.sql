/* The answer to a question of _live_question() for a role and settings; both are as before when it returns.  Without a question every row is seen. */
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
  perform set_config('role', role, true);
  execute question into answer using images, numbers;
  perform set_config('role', before, true);
  perform trunkline._live_settings(former);
  return answer;
end $$;
select trunkline._access('_live_answer(text, name, jsonb, jsonb[], int[])', 'reader');
