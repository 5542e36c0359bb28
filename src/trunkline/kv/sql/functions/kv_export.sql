/* What changed after a position: the present state of every key that did, but for those that came from the one who asks, as JSON for kv_apply().  scope is all,
   or parade for what belongs to the parade alone.  Up to max_changes changes and about 8 MB; life is the origin of this life, up_to where to go on after, head how far there is.
   Reads only.  Errors: TL404, TL410 what follows the position has left, TL422. */
create or replace function trunkline.kv_export(instance text, origin bigint, after_position bigint, scope text default 'all', max_changes int default 2000)
returns table (life bigint, up_to bigint, head bigint, states jsonb)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  present trunkline.kv_life;
  first bigint;
begin
  perform trunkline._kv_follower_check(instance, origin);
  if after_position is null or after_position < 0 or max_changes is null or max_changes < 1 or scope is null or scope not in ('all', 'parade') then
    raise exception using errcode = 'TL422', message = 'a position is a number from 0, max_changes is at least 1, scope is all or parade.';
  end if;
  select l.* into present from trunkline.kv_life l join trunkline._incarnation_present() i on i.incarnation = l.incarnation order by l.life desc limit 1;
  life := present.origin;
  head := trunkline.kv_head();
  if after_position >= head then
    up_to := after_position;
    states := '[]';
    if after_position > head then
      raise exception using errcode = 'TL410', message = format('position %s is not of this history, which ends at %s.', after_position, head);
    end if;
    return next;
    return;
  end if;
  with found as materialized (
    select r.up_to, c.namespace, c.key, c.via from trunkline._sequence_rows('kv_change', after_position + 1, max_changes) r
      left join trunkline.kv_change c on c.xid = r.xid and c.seq = r.seq),
  wanted as (
    select f.namespace, f.key, max(f.up_to) as up_to from found f
     where f.via <> kv_export.origin and (scope = 'all' or f.namespace = 'parade') group by f.namespace, f.key),
  told as materialized (
    select w.up_to, trunkline._kv_state(e) as state from wanted w join trunkline.kv_entry e on e.namespace = w.namespace and e.key = w.key
     where present.whole is not false or not trunkline._kv_doubtful(e, present)),
  counted as (
    select t.up_to, t.state, sum(pg_column_size(t.state)) over (order by t.up_to) - pg_column_size(t.state) as bytes_before from told t)
  select (select min(f.up_to) from found f),
         coalesce((select min(c.up_to) - 1 from counted c where c.bytes_before > 8000000), (select max(f.up_to) from found f)),
         coalesce((select jsonb_agg(c.state) from counted c where c.bytes_before <= 8000000), '[]')
    into first, up_to, states;
  if first is distinct from after_position + 1 then
    raise exception using errcode = 'TL410', message = format('what follows position %s has left, the first there is %s.', after_position, first);
  end if;
  return next;
end $$;
comment on function trunkline.kv_export(text, bigint, bigint, text, int) is 'What changed after a position, for kv_apply() elsewhere.';
select trunkline._access('kv_export(text, bigint, bigint, text, int)', 'admin');
