/* How many dead letters are not settled, by the topic that they lie in; what compaction took is counted. */
create or replace function trunkline._log_dead_waiting()
returns table (topic text, letters bigint) language sql security definer set search_path = pg_catalog, pg_temp as $$
  select t.topic, sum(r.last_offset - r.first_offset + 1)::bigint
    from trunkline.log_topic t join trunkline.log_partition p using (topic_id) cross join lateral trunkline._log_dead_ranges(p) r
   where t.topic like '%.dead' and p.partition = 0 group by 1 order by 1;
$$;
select trunkline._access('_log_dead_waiting()', 'reader');
