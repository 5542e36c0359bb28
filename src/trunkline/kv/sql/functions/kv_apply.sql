/* Take in what another instance exported, and note how far: state says of which life and whether all was copied.  In any order and any number of times it
   comes to the same.  Waits for no transaction of a client: a key that an open transaction holds waits in kv_held, stored with the position, and kv_release() applies it later.
   Returns how many keys changed, how many wait for their time (held) and for a lock (waiting), and the clock: what is read from now on may be applied with
   that as read_at.  Locks: the cursor kv:from:<instance>, the keys; each for 5 seconds at most.  Errors: TL409 read too long ago (read_at by the clock of this server, as
   kv_pulled() returned it): a key that was forgotten since could come back; or read before the server started (start in state).  TL422 what are no states.  TL423 another process owns kv:from:<instance>, checked last. */
create or replace function trunkline.kv_apply(instance text, epoch bigint, up_to bigint, state jsonb, states jsonb, read_at bigint, out applied int, out held int, out waiting int, out clock bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '5s' as $$
declare
  cursor_row trunkline.cursor := trunkline._cursor_hold(trunkline._kv_from(instance));
begin
  if trunkline._kv_clock() - read_at > greatest(extract(epoch from trunkline._setting('kv.dead_keep')::interval) / 2, 10) * 1000000 then
    raise exception using errcode = 'TL409', message = 'this was read too long ago.', hint = 'Read it again.';
  elsif state ->> 'start' <> extract(epoch from pg_postmaster_start_time())::text then
    raise exception using errcode = 'TL409', message = 'this server has started since this was read.',
      hint = 'Say kv_hello() to the other instance and read it again.';
  elsif state is null or (state ->> 'origin') is null or up_to is null or read_at is null or jsonb_typeof(states) is distinct from 'array' then
    raise exception using errcode = 'TL422', message = 'what is applied has a position, a state with the origin, a list of keys, and when it was read.';
  end if;
  begin
    select t.applied, t.held, t.waiting into applied, held, waiting from trunkline._kv_take_in(states, (state ->> 'origin')::bigint) t;
  exception when not_null_violation or cardinality_violation or invalid_text_representation or invalid_parameter_value or numeric_value_out_of_range then
    raise exception using errcode = 'TL422', message = format('these are not states of keys as kv_export() tells them, each once: %s.', sqlerrm);
  end;
  if cursor_row.up_to is distinct from up_to or cursor_row.state is distinct from state then
    perform trunkline._cursor_move(cursor_row, up_to, state);
  end if;
  clock := trunkline._kv_clock();
  perform trunkline._owner_check(trunkline._kv_from(instance), epoch);
end $$;
comment on function trunkline.kv_apply(text, bigint, bigint, jsonb, jsonb, bigint) is 'Take in what another instance exported, and note how far.';
select trunkline._access('kv_apply(text, bigint, bigint, jsonb, jsonb, bigint)', 'admin');
