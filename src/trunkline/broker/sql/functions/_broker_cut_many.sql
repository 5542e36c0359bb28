/* _broker_cut for many lanes at once: a lane of a handler per place of the arrays.  Returns the places that are committed.  The
   others are to be committed alone, which waits or says why not: somebody holds the cursor, the epoch is over, the delivery does
   not exist.  Every epoch is checked before its cursor moves, and held until commit: a hand-over waits for that.
   Locks: owner, cursor_key, in the order of lanes; waits for none of them.  TL400 unless in READ COMMITTED. */
create or replace function trunkline._broker_cut_many(group_names text[], handlers text[], lanes int[], epochs bigint[], up_tos bigint[], cuts jsonb[])
returns int[] language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  before bigint := (select trunkline._epoch_floor(i.incarnation) from trunkline._incarnation_present() i);
  delivered bigint := trunkline._broker_delivered();
  owned record;
  allowed text[] := trunkline._broker_groups_for(group_names);
  locked record;
begin
  perform trunkline._lock_briefly();
  perform trunkline._isolation_check('Committing lanes together');
  -- locks inside of lateral queries: each row is looked up by its key, whatever the planner knows of the table
  select array_agg(a.place) as places, array_agg(o.resource) as resources into owned
    from (select a.place, a.epoch, trunkline._broker_resource(g.group_id, a.handler, a.lane) as resource
            from unnest(group_names, handlers, lanes, epochs, up_tos) with ordinality a (group_name, handler, lane, epoch, up_to, place)
            join trunkline.broker_group g on g.group_name = a.group_name
           where a.group_name = any (allowed) and a.up_to <= delivered order by g.group_id, a.handler, a.lane offset 0) a
    cross join lateral (
      select o.resource from trunkline.owner o
       where o.resource = a.resource and o.epoch = a.epoch and o.epoch > before and o.process is not null for share skip locked) o;
  select array_agg(u.place) as places, array_agg(k.cursor_id) as cursors into locked
    from unnest(owned.places, owned.resources) u (place, resource)
    cross join lateral (select k.cursor_id from trunkline.cursor_key k where k.resource = u.resource for no key update skip locked) k;
  -- a statement of its own: it sees what was committed before the locks were taken
  insert into trunkline.cursor (slot, cursor_id, seq, up_to, state, at)
  select (select r.current from trunkline.ring r where r.ring = 'cursor'), u.cursor_id, latest.seq + 1, up_tos[u.place],
         case when cuts[u.place] is not null then jsonb_build_object('cuts', cuts[u.place]) end, clock_timestamp()
    from unnest(locked.places, locked.cursors) u (place, cursor_id)
    cross join lateral (select c.seq, c.up_to, c.state from trunkline.cursor c where c.cursor_id = u.cursor_id order by c.seq desc limit 1) latest
   where up_tos[u.place] > latest.up_to or (up_tos[u.place] = latest.up_to and cuts[u.place] <> coalesce(latest.state -> 'cuts', '[]'));
  return coalesce(locked.places, '{}');
end $$;
select trunkline._access('_broker_cut_many(text[], text[], int[], bigint[], bigint[], jsonb[])', 'reader');
