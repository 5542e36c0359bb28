/* Keys of a namespace that changed after a position, in the order of their last change, with what they say now; value is NULL for one that is gone.  Changes of all zones, as they arrive here.
   One row more tells how far was read: its key is NULL.  Reads only.  Errors: TL403, TL404, TL410 what follows the position has left, TL422. */
create or replace function trunkline.kv_changes(namespace text, after_position bigint, prefix text default '', max_changes int default 1000)
returns table (up_to bigint, key text, value jsonb, version text, expires_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  now_ timestamptz := trunkline._kv_time();
  head bigint := trunkline.kv_head();
  first bigint;
  last bigint;
begin
  perform trunkline._kv_namespace_check(namespace);
  if namespace = any (trunkline._kv_guarded('read')) then
    perform trunkline._check_may('namespace:' || namespace, 'read');
  end if;
  if after_position is null or after_position < 0 or prefix is null or max_changes is null or max_changes < 1 then
    perform trunkline._raise('TL422', 'a position is a number from 0, prefix is a text, max_changes is at least 1.');
  elsif after_position > head then
    perform trunkline._raise('TL410', format('position %s is not of this history, which ends at %s.', after_position, head),
      'The server was restored. If its files were replaced by an older copy, run incarnation_begin().', jsonb_build_object('last', head));
  elsif after_position < head then
    select min(r.up_to), max(r.up_to) into first, last from trunkline._sequence_rows('kv_change', after_position + 1, max_changes) r;
    if first is distinct from after_position + 1 then
      perform trunkline._raise('TL410', format('what follows position %s has left, the first there is %s.', after_position, first),
        'Read all keys with kv_scan() and go on after kv_head().', jsonb_build_object('first', first));
    end if;
    return query
      with found as materialized (  -- changes by their numbers: never all of them, to be sifted by key
        select r.up_to, c.namespace, c.key from trunkline._sequence_rows('kv_change', after_position + 1, max_changes) r
          left join trunkline.kv_change c on c.xid = r.xid and c.seq = r.seq)
      select w.up_to, w.key, trunkline._kv_value(e, now_), trunkline._kv_version(e), e.dead_at
        from (select f.key, max(f.up_to) as up_to from found f
               where f.namespace = kv_changes.namespace and left(f.key, length(prefix)) = prefix group by f.key) w
        left join trunkline.kv_entry e on e.namespace = kv_changes.namespace and e.key = w.key
       order by w.up_to;
  end if;
  return query select coalesce(last, after_position), null::text, null::jsonb, null::text, null::timestamptz;
end $$;
comment on function trunkline.kv_changes(text, bigint, text, int) is 'Keys that changed after a position, with what they say now.';
select trunkline._access('kv_changes(text, bigint, text, int)', 'reader');
