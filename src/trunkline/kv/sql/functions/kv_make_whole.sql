/* When every peer of this shard has been copied in this life: remove keys of the life before that none of them has.  They were deleted and forgotten meanwhile, unless they
   changed here after the last position that any peer had pulled.  Peers that have never had all of this copy, or are not whole themselves, cannot tell; where none can, or
   changes since then have left, all keys stay.  What stays is told to the peers.
   Returns whether the copy is whole now; in a life that is so already nothing is done. */
create or replace function trunkline.kv_make_whole()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
  life trunkline.kv_life := trunkline._kv_life();
  peer record;
  reached trunkline.cursor;
  seen bigint;
begin
  perform trunkline._lock_briefly();
  if life.whole then
    return true;
  end if;
  perform 1 from trunkline.kv_life l where l.life = life.life for update;
  for peer in select t.instance, p.heard_at, i.stamp from trunkline.kv_local_replication_topology() t join trunkline._kv_instances() i on i.instance = t.instance
                left join trunkline.kv_peer p on p.instance = t.instance where t.scope = 'all' loop
    reached := trunkline._kv_reached(trunkline._kv_from(peer.instance));
    if coalesce((reached.state ->> 'life')::bigint = life.origin and reached.state ->> 'copied' = 'true', false) then
      seen := greatest(seen, (reached.state ->> 'seen')::bigint);
    elsif greatest(peer.heard_at, to_timestamp(peer.stamp / 1000000.0), life.began_at) > clock_timestamp() - trunkline._setting('kv.peer_patience')::interval then
      return false;  -- it may have what the others lack
    end if;
  end loop;
  if seen is not null then
    perform trunkline.kv_tick();
    if seen < trunkline.kv_head() and not exists (select from trunkline._sequence_rows('kv_change', seen + 1, 1) r where r.up_to = seen + 1) then
      seen := null;  -- what changed since has left: any key may be one that only this copy has
    end if;
  end if;
  if seen is not null then
    create temporary table _kv_unseen on commit drop as
      select distinct c.namespace, c.key from trunkline._sequence_rows('kv_change', seen + 1, greatest(trunkline.kv_head() - seen, 0)::int) r
        join trunkline.kv_change c on c.xid = r.xid and c.seq = r.seq;
    with gone as (
      delete from trunkline.kv_entry e where e.namespace <> 'parade' and trunkline._kv_doubtful(e, life)
         and not exists (select from pg_temp._kv_unseen u where u.namespace = e.namespace and u.key = e.key)
      returning e.namespace, e.key)
    delete from trunkline.kv_counter c using gone g where c.namespace = g.namespace and c.key = g.key;
    drop table pg_temp._kv_unseen;
    delete from trunkline.kv_held h where h.held_at < life.began_at;
  end if;
  perform trunkline._kv_note(k.namespace, k.keys, life.origin)
     from (select e.namespace, array_agg(e.key) as keys from trunkline.kv_entry e where trunkline._kv_doubtful(e, life) group by e.namespace) k;
  update trunkline.kv_life l set whole = true where l.life = life.life;
  return true;
end $$;
comment on function trunkline.kv_make_whole() is 'Remove keys of the life before that were deleted meanwhile, when all peers have been copied.';
select trunkline._access('kv_make_whole()', 'admin');
