/* Topics with their settings, how much they hold and how large they are. */
create or replace function trunkline.log_list()
returns table (topic text, partitions int, messages bigint, bytes bigint, retention interval, retention_bytes bigint, compact boolean, codec text, early_release boolean, archive boolean, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.topic, t.partitions, sum(trunkline._log_tail_briefly(p) - p.first_offset + 1)::bigint,
         (select sum(pg_total_relation_size(to_regclass('trunkline.log_segment_' || s.segment_id))) from trunkline.log_segment s where s.topic_id = t.topic_id)::bigint,
         t.retention, t.retention_bytes, t.compact, t.codec, t.early_release, t.archive, t.created_at
    from trunkline.log_topic t join trunkline.log_partition p using (topic_id) group by t.topic_id order by t.topic;
$$;
comment on function trunkline.log_list() is 'Topics with their settings, how much they hold and how large they are.';
select trunkline._access('log_list()', 'reader');
