/* How this instance stands to the others: how many changes of theirs are not here yet, since when, how many of ours they have not confirmed, by how much this clock is ahead,
   and why one could not be reached. */
create or replace function trunkline.kv_status()
returns table (instance text, scope text, state text, behind bigint, level_at timestamptz, unconfirmed bigint, asked_at timestamptz, skew interval, error text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.instance, t.scope,
         case when p.error is not null then 'away' when r.up_to is null then 'new' when r.state ->> 'copied' is distinct from 'true' then 'copying' else 'following' end,
         greatest(p.head - r.up_to, 0), p.level_at, trunkline.kv_head() - (trunkline._kv_reached(trunkline._kv_to(t.instance))).up_to, p.asked_at, p.skew, p.error
    from trunkline.kv_local_replication_topology() t left join trunkline.kv_peer p on p.instance = t.instance
    cross join lateral trunkline._kv_reached(trunkline._kv_from(t.instance)) r
   order by t.instance;
$$;
comment on function trunkline.kv_status() is 'How this instance stands to the others.';
select trunkline._access('kv_status()', 'reader');
