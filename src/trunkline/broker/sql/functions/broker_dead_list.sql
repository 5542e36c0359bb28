/* Dead letters, the newest first: what failed for good, the first line of its last error, and how many events of its key
   wait behind it; of groups that you may consume.  TL404 for a group that is not there. */
create or replace function trunkline.broker_dead_list(group_name text default null, handler text default null)
returns table (retry bigint, group_name text, handler text, topic text, key text, event_id bigint, event_position bigint, attempts int,
               error text, failed_at timestamptz, behind bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select from trunkline._broker_group_row($1) where $1 is not null;
  select r.retry, g.group_name, r.handler, r.topic, r.key, r.event_id, r.event_position, r.attempts,
         split_part(r.errors -> -1 ->> 'error', E'\n', 1), (r.errors -> -1 ->> 'at')::timestamptz,
         (select count(*) from trunkline.broker_retry p
           where p.group_id = r.group_id and p.handler = r.handler and p.key = r.key and p.delivery > r.delivery and p.status = 'parked')
    from trunkline.broker_retry r join trunkline.broker_group g using (group_id)
   where r.status = 'dead' and ($1 is null or g.group_name = $1) and ($2 is null or r.handler = $2)
     and g.group_name = any (trunkline._broker_groups_for(array(select a.group_name from trunkline.broker_group a)))
     and (r.watch is null or coalesce(r.watch = any ((select trunkline._watch_readable(trunkline._caller()))::int[]), true))
   order by 10 desc, 1 desc;
$$;
comment on function trunkline.broker_dead_list(text, text) is 'Dead letters: events that handlers failed with for good.';
select trunkline._access('broker_dead_list(text, text)', 'reader');
