/* Give a claim back: log_claim() hands it out again after retry_after, with one attempt more.
   The reason goes along, at last to the dead letter.  TL423 when it is not in flight any more. */
create or replace function trunkline.log_release(topic text, group_name text, partition int, claim bigint, retry_after interval default '0', reason text default null)
returns void language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._log_claim_change(topic, group_name, partition, claim, clock_timestamp() + least(greatest(retry_after, '0'), '100 years'), left(reason, 2000));
$$;
comment on function trunkline.log_release(text, text, int, bigint, interval, text) is 'Give a claim back, to be handed out again.';
select trunkline._access('log_release(text, text, int, bigint, interval, text)', 'reader');
