/* Note what is known of another instance: how far it is, whether everything of it is here, by how much this clock is ahead of its, or why it could not be reached.  Written when it says
   something new, at most once in ten seconds otherwise.  With skew the clocks are judged: see _kv_clocks_judge(). */
create or replace function trunkline.kv_heard(instance text, origin bigint default null, head bigint default null, is_level boolean default false, skew interval default null, error text default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  most interval := trunkline._setting('kv.max_skew');
begin
  insert into trunkline.kv_peer as p (instance, origin, head, level_at, skew, heard_at, error, failed_at)
  values (kv_heard.instance, kv_heard.origin, kv_heard.head, case when is_level then clock_timestamp() end, kv_heard.skew,
          case when kv_heard.error is null then clock_timestamp() end, left(kv_heard.error, 1000), case when kv_heard.error is not null then clock_timestamp() end)
  on conflict on constraint kv_peer_pkey do update set
    origin = coalesce(excluded.origin, p.origin), head = coalesce(excluded.head, p.head), level_at = coalesce(excluded.level_at, p.level_at),
    skew = coalesce(excluded.skew, p.skew), heard_at = coalesce(excluded.heard_at, p.heard_at), error = excluded.error,
    failed_at = coalesce(excluded.failed_at, p.failed_at)
   where excluded.error is distinct from p.error or coalesce(excluded.origin <> p.origin, p.origin is null) or coalesce(excluded.head > p.head, p.head is null)
      or p.level_at is null and excluded.level_at is not null
      or coalesce(excluded.skew - p.skew not between interval '-10 milliseconds' and '10 milliseconds', excluded.skew is not null) or coalesce(greatest(p.heard_at, p.failed_at) < clock_timestamp() - interval '10 seconds', true);
  if skew is not null then
    perform trunkline._kv_clocks_judge(most);
  end if;
end $$;
comment on function trunkline.kv_heard(text, bigint, bigint, boolean, interval, text) is 'Note what is known of another instance.';
select trunkline._access('kv_heard(text, bigint, bigint, boolean, interval, text)', 'admin');
