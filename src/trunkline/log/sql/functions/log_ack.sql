/* A claim is done.  TL423 when it is not in flight any more: it was redelivered, acknowledged or moved by a seek. */
create or replace function trunkline.log_ack(topic text, group_name text, partition int, claim bigint)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._log_claim_change(topic, group_name, partition, claim, null);
$$;
comment on function trunkline.log_ack(text, text, int, bigint) is 'A claim is done; refused when it is not in flight any more.';
select trunkline._access('log_ack(text, text, int, bigint)', 'reader');
