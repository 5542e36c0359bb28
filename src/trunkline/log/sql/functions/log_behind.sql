/* How far groups are behind, partition by partition: in messages, and for how long the first of them has waited (0 when none does; exact to
   the batch; of those that are archived, that of the first which is not).  Done is what log_groups() says. */
create or replace function trunkline.log_behind(topic text default null, group_name text default null)
returns table (topic text, group_name text, partition int, up_to bigint, last_offset bigint, lag bigint, age interval)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select g.topic, g.group_name, g.partition, g.up_to, g.last_offset, g.lag,
         coalesce(greatest(clock_timestamp() - case when g.lag > 0 then trunkline._log_at_briefly(p, g.up_to + 1) end, '0'), '0')
    from trunkline.log_groups($1, $2) g join trunkline.log_topic t on t.topic = g.topic
    join trunkline.log_partition p on p.topic_id = t.topic_id and p.partition = g.partition
   order by 1, 2, 3;
$$;
comment on function trunkline.log_behind(text, text) is 'How far groups are behind by partition: in messages, and for how long.';
select trunkline._access('log_behind(text, text)', 'reader');
