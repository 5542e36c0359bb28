/* The last delivery that was numbered. */
create or replace function trunkline._broker_delivered()
returns bigint language sql stable as $$
  select ((trunkline._cursor_latest(k.cursor_id)).state ->> 'deliveries')::bigint from trunkline.cursor_key k where k.resource = 'broker:matcher';
$$;
