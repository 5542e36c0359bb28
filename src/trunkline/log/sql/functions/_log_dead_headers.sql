/* The headers with which a dead letter goes back: those that the message had before log_bury(), and which letter it was. */
create or replace function trunkline._log_dead_headers(headers jsonb, about jsonb, letter bigint)
returns jsonb language sql immutable as $$
  select case when about is null then coalesce(headers, '{}')
              when about ? 'dead' then headers || jsonb_build_object('dead', about -> 'dead')
              else headers - 'dead' end
         || jsonb_build_object('retry_of', coalesce(about, '{}') - 'dead' - 'tombstone' - 'key_hex' || jsonb_build_object('letter', letter));
$$;
