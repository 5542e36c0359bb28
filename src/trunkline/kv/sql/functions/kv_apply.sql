/* Take in what another instance has told, and note how far: state says of which life and whether all was copied.  In any order and any number of times it comes to the same.  What was
   read too long ago (read_at by the clock of this server, as kv_pulled() gave it) is refused with TL409: a key that was forgotten since could come back.  The epoch of kv:from:<instance> is
   checked last: TL423 when another process does this now.  TL422 what are no states.  Returns how many keys changed, how many wait for their time, and the
   clock: what is read from now on may be applied with that as read_at. */
create or replace function trunkline.kv_apply(instance text, epoch bigint, up_to bigint, state jsonb, states jsonb, read_at bigint, out applied int, out held int, out clock bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  cursor_row trunkline.cursor := trunkline._cursor_hold(trunkline._kv_from(instance));
begin
  if trunkline._kv_clock() - read_at > greatest(extract(epoch from trunkline._setting('kv.dead_keep')::interval) / 2, 10) * 1000000 then
    perform trunkline._raise('TL409', 'this was read too long ago.', 'Read it again.');
  elsif state is null or (state ->> 'origin') is null or up_to is null or read_at is null or jsonb_typeof(states) is distinct from 'array' then
    perform trunkline._raise('TL422', 'what is applied has a position, a state with the origin, a list of keys, and when it was read.');
  end if;
  begin
    select t.applied, t.held into applied, held from trunkline._kv_take_in(states, (state ->> 'origin')::bigint) t;
  exception when not_null_violation or cardinality_violation or invalid_text_representation or invalid_parameter_value or numeric_value_out_of_range then
    perform trunkline._raise('TL422', format('these are not states of keys as kv_export() tells them, each once: %s.', sqlerrm));
  end;
  if cursor_row.up_to is distinct from up_to or cursor_row.state is distinct from state then
    perform trunkline._cursor_move(cursor_row, up_to, state);
  end if;
  clock := trunkline._kv_clock();
  perform trunkline._owner_check(trunkline._kv_from(instance), epoch);
end $$;
comment on function trunkline.kv_apply(text, bigint, bigint, jsonb, jsonb, bigint) is 'Take in what another instance has told, and note how far.';
select trunkline._access('kv_apply(text, bigint, bigint, jsonb, jsonb, bigint)', 'admin');
