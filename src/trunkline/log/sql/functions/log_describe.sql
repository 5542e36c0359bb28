/* The partitions of a topic: first and last offset in the database, segments, bytes, and what is archived without a hole.
   TL404 when there is no such topic. */
create or replace function trunkline.log_describe(topic text)
returns table (partition int, first_offset bigint, last_offset bigint, segments int, bytes bigint, archived_first bigint, archived_last bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  -- a statement of its own: as a condition it would not be looked at where there is no partition
  select trunkline._log_topic_row($1);
  select p.partition, p.first_offset, trunkline._log_tail_briefly(p),
         (select count(*)::int from trunkline.log_segment s where s.topic_id = p.topic_id and s.partition = p.partition),
         (select sum(pg_total_relation_size(to_regclass('trunkline.log_segment_' || s.segment_id)))::bigint
            from trunkline.log_segment s where s.topic_id = p.topic_id and s.partition = p.partition),
         trunkline._log_archived_first(p), trunkline._log_archived_last(p)
    from trunkline.log_partition p where p.topic_id = (trunkline._log_topic_row($1)).topic_id order by p.partition;
$$;
comment on function trunkline.log_describe(text) is 'The partitions of a topic: offsets, segments, bytes, what is archived.';
select trunkline._access('log_describe(text)', 'reader');
