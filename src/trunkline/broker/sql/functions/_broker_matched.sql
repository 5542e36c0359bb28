/* The last position that was matched. */
create or replace function trunkline._broker_matched()
returns bigint language sql stable as $$
  select (trunkline._cursor_latest(k.cursor_id)).up_to from trunkline.cursor_key k where k.resource = 'broker:matcher';
$$;
