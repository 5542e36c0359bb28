/* Store keys as entries of bounded size, one shard each.  TL422 for a shard below 0. */
create or replace function trunkline._tube_put_entries(
  tube_id int, attachment int, shard int, shards int[], keys text[], operation text, payload jsonb, priority int)
returns void language plpgsql as $$
declare
  most int := trunkline._setting('tube.entry_keys');
  space int := trunkline._xid_space();
  lowest int := least(shard, (select min(s.shard) from unnest(shards) s (shard)));
begin
  if lowest < 0 then
    raise exception using errcode = 'TL422', message = format('a shard is a number from 0, got %s.', lowest);
  end if;
  insert into trunkline.tube_entry (slot, xid_space, xid, seq, tube_id, attachment, shard, priority, op, keys, payload, at)
  select (select r.current from trunkline.ring r where r.ring = 'tube_entry'), space, pg_current_xact_id(), nextval('trunkline.tube_seq'),
         _tube_put_entries.tube_id, _tube_put_entries.attachment, c.shard, _tube_put_entries.priority, operation::"char", c.keys,
         _tube_put_entries.payload, clock_timestamp()
    from (select p.shard, array_agg(p.key order by p.ordinal) as keys, min(p.ordinal) as ordinal
            from (select coalesce(u.shard, _tube_put_entries.shard) as shard, u.key, u.ordinal,
                         (row_number() over (partition by coalesce(u.shard, _tube_put_entries.shard) order by u.ordinal) - 1) / most as part
                    from unnest(_tube_put_entries.shards, _tube_put_entries.keys) with ordinality u (shard, key, ordinal)) p
           group by p.shard, p.part order by 3) c;
end $$;
