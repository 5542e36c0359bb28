/* Groups, partition by partition: what is done, what is there, how far behind, who owns it.  lost are messages that have left, from
   the database and not to an archive, before they were done: the group gets TL410 there.
   Nobody is behind on offsets that compaction took, if nothing is left after them.
   For a shared group "done" ends before the first claim in flight.  TL404 for a name that there is not. */
create or replace function trunkline.log_groups(topic text default null, group_name text default null)
returns table (topic text, group_name text, mode text, partition int, up_to bigint, last_offset bigint, lag bigint, lost bigint, claims int, epoch bigint, process uuid, process_name text, moved_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._log_group_named($1, $2);
  select t.topic, g.group_name, g.mode, p.partition, d.done, e.tail,
         case when t.compact and e.tail > d.done and trunkline._log_done_after(t.topic, p, d.done) then 0 else e.tail - d.done end,
         greatest(trunkline._log_first(p) - 1 - d.done, 0),
         coalesce(jsonb_array_length(c.state), 0), o.epoch, o.process, l.name, c.at
    from trunkline.log_topic t join trunkline.log_group g using (topic_id) join trunkline.log_partition p using (topic_id)
    cross join lateral (select trunkline._log_resource(t.topic_id, g.group_name, p.partition) as resource) r
    left join trunkline.cursor_key k on k.resource = r.resource
    left join lateral (select x.* from trunkline._cursor_latest(k.cursor_id) x) c on true
    cross join lateral (select trunkline._log_tail_briefly(p) as tail) e
    cross join lateral (select coalesce((select min(f.first_offset) - 1 from trunkline._log_claims(c.state) f), trunkline._log_done_up_to(p, c.up_to)) as done) d
    left join trunkline.owner o on o.resource = r.resource
    left join trunkline.lease l on l.process = o.process
   where ($1 is null or t.topic = $1) and ($2 is null or g.group_name = $2)
   order by 1, 2, 4;
$$;
comment on function trunkline.log_groups(text, text) is 'Groups by partition: what is done, what is there, how far behind, who owns it.';
select trunkline._access('log_groups(text, text)', 'reader');
