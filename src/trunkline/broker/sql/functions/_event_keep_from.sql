/* The lowest position that somebody still needs. */
create or replace function trunkline._event_keep_from()
returns bigint language sql stable as $$
  select 0::bigint;
$$;
