/* Which partitions have messages beyond the given offsets: one read-only call for an idle consumer. */
create or replace function trunkline.log_ready(topic text, partitions int[], up_to bigint[])
returns setof int language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select u.partition from unnest(partitions, up_to) u (partition, up_to)
    join trunkline.log_partition p on p.topic_id = (trunkline._log_topic_row($1)).topic_id and p.partition = u.partition
   where trunkline._log_tail(p) > u.up_to;
$$;
comment on function trunkline.log_ready(text, int[], bigint[]) is 'Which partitions have messages beyond the given offsets.';
select trunkline._access('log_ready(text, int[], bigint[])', 'reader');
