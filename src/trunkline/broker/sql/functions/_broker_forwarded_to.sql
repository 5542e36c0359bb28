/* Every event up to this position is forwarded that has to be; NULL when the log has no topic. */
create or replace function trunkline._broker_forwarded_to()
returns bigint language sql stable as $$
  select min((trunkline._cursor_latest(k.cursor_id)).up_to) from trunkline.cursor_key k where k.resource like 'broker:forward:%';
$$;
