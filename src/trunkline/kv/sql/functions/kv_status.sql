/* How this instance stands to the others: how many changes of theirs are not here yet, since when, how many of ours they have not confirmed, by how much this clock is ahead,
   and why one could not be reached.  waiting: how many keys of theirs are here but wait for a transaction that holds the key, since when, and which
   transactions these are. */
create or replace function trunkline.kv_status()
returns table (instance text, scope text, state text, behind bigint, level_at timestamptz, unconfirmed bigint, asked_at timestamptz, skew interval, error text,
               waiting bigint, waiting_since timestamptz, waits_for text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select t.instance, t.scope,
         case when p.error is not null then 'away' when r.up_to is null then 'new' when r.state ->> 'copied' is distinct from 'true' then 'copying' else 'following' end,
         greatest(p.head - r.up_to, 0), p.level_at, trunkline.kv_head() - (trunkline._kv_reached(trunkline._kv_to(t.instance))).up_to, p.asked_at, p.skew, p.error,
         w.n, w.since, case when w.n > 0 then trunkline._kv_lock_holders((r.state ->> 'origin')::bigint) end
    from trunkline.kv_local_replication_topology() t left join trunkline.kv_peer p on p.instance = t.instance
    cross join lateral trunkline._kv_reached(trunkline._kv_from(t.instance)) r
    cross join lateral (
      select count(*) as n, min(h.held_at) as since from trunkline.kv_held h where h.reason = 'lock' and h.via = (r.state ->> 'origin')::bigint) w
   order by t.instance;
$$;
comment on function trunkline.kv_status() is 'How this instance stands to the others.';
select trunkline._access('kv_status()', 'reader');
