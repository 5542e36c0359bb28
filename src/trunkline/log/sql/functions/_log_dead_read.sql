/* The letters of a range of a topic of dead letters, in order: whole, or without their values.  about is what log_bury() told of one.
   readable is false where a client has compressed it, of which SQL knows nothing but that it is there. */
create or replace function trunkline._log_dead_read(topic text, first_offset bigint, last_offset bigint, whole boolean)
returns table (letter bigint, failed_at timestamptz, key bytea, value bytea, headers jsonb, about jsonb, readable boolean)
language plpgsql as $$
declare
  reach bigint := first_offset;
  batch record;
begin
  while reach <= last_offset loop  -- one fetch need not bring all
    for batch in select f.* from trunkline.log_fetch(topic, 0, reach, least(last_offset - reach + 1, 2147483647)::int) f loop
      if batch.codec = 0 then
        return query
          select m.log_offset, batch.at, case when m.header -> 'dead' -> 'key_hex' is null then m.key
                                              when m.header -> 'dead' ->> 'key_hex' ~ '^([0-9a-f]{2})*$' then decode(m.header -> 'dead' ->> 'key_hex', 'hex') end, case when whole then m.value end, m.header,
                 case jsonb_typeof(m.header -> 'dead') when 'object' then m.header -> 'dead' end, true
            from trunkline._log_messages(batch.base_offset, batch.n, batch.value_ends, batch.payload, batch.value_valid,
                   batch.key_ends, batch.keys, batch.key_valid, batch.deltas, batch.headers) m
           where m.log_offset between reach and _log_dead_read.last_offset order by m.i;
      else
        return query
          select g, batch.at, null::bytea, null::bytea, null::jsonb, null::jsonb, false
            from generate_series(greatest(reach, batch.base_offset), least(batch.last_offset, _log_dead_read.last_offset)) g;
      end if;
      reach := batch.last_offset + 1;
    end loop;
    exit when not found;
  end loop;
end $$;
