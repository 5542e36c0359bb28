/* How far each group is behind, in messages; lost are those of them that have left before they were done.  TL404 for a name that there is not. */
create or replace function trunkline.log_lag(topic text default null, group_name text default null)
returns table (topic text, group_name text, lag bigint, lost bigint, partitions int, owned int)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select g.topic, g.group_name, sum(g.lag)::bigint, sum(g.lost)::bigint, count(*)::int, count(g.process)::int
    from trunkline.log_groups($1, $2) g group by 1, 2 order by 1, 2;
$$;
comment on function trunkline.log_lag(text, text) is 'How far each group is behind, in messages.';
select trunkline._access('log_lag(text, text)', 'reader');
