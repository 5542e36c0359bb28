/* Take in states of keys, but hold those back whose stamp is too far in the future: they are neither applied nor passed on until then.
   What one peer says of a key later replaces what it said before; what two say is kept side by side. */
create or replace function trunkline._kv_take_in(states jsonb, via bigint, out applied int, out held int)
language plpgsql as $$
declare
  latest bigint := trunkline._kv_clock() + trunkline._kv_skew();
  early jsonb := jsonb_path_query_array(states, '$[*] ? (@.stamp > $latest || @.counted_stamp > $latest)', jsonb_build_object('latest', latest));
begin
  held := jsonb_array_length(early);
  if held > 0 then
    insert into trunkline.kv_held as h (namespace, key, via, stamp, state)
    select s ->> 'namespace', s ->> 'key', _kv_take_in.via, greatest((s ->> 'stamp')::bigint, (s ->> 'counted_stamp')::bigint), s
      from jsonb_array_elements(early) s order by s ->> 'namespace', (s ->> 'key') collate "C"
    on conflict on constraint kv_held_pkey do update set stamp = excluded.stamp, state = excluded.state
     where excluded.state <> h.state;
    states := jsonb_path_query_array(states, '$[*] ? (@.stamp <= $latest && @.counted_stamp <= $latest)', jsonb_build_object('latest', latest));
  end if;
  applied := case when jsonb_array_length(states) > 0 then trunkline._kv_merge(states, via) else 0 end;
end $$;
