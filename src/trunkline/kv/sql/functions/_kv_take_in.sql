/* Take in states of keys.  Two kinds wait in kv_held: those whose stamp is too far in the future, and those whose key an open transaction
   holds.  Neither is applied nor passed on until then (see kv_release()).  A later state of a key from the same peer replaces
   the one that waits; states of two peers wait side by side. */
create or replace function trunkline._kv_take_in(states jsonb, via bigint, out applied int, out held int, out waiting int)
language plpgsql as $$
declare
  latest bigint := trunkline._kv_now() + trunkline._kv_skew();
  early jsonb := jsonb_path_query_array(states, '$[*] ? (@.stamp > $latest || @.counted_stamp > $latest)', jsonb_build_object('latest', latest));
  locked jsonb := '[]';
begin
  held := jsonb_array_length(early);
  applied := 0;
  if held > 0 then
    states := jsonb_path_query_array(states, '$[*] ? (@.stamp <= $latest && @.counted_stamp <= $latest)', jsonb_build_object('latest', latest));
  end if;
  if jsonb_array_length(states) > 0 then
    select m.applied, m.waiting into applied, locked from trunkline._kv_merge_free(states, via, true) m;
  end if;
  waiting := jsonb_array_length(locked);
  if held + waiting > 0 then
    insert into trunkline.kv_held as h (namespace, key, via, stamp, state, reason)
    select s ->> 'namespace', s ->> 'key', _kv_take_in.via, greatest((s ->> 'stamp')::bigint, (s ->> 'counted_stamp')::bigint), s, w.reason
      from (select jsonb_array_elements(early), 'clock' union all select jsonb_array_elements(locked), 'lock') w (s, reason)
     order by s ->> 'namespace', (s ->> 'key') collate "C"
    on conflict on constraint kv_held_pkey do update set stamp = excluded.stamp, state = excluded.state, reason = excluded.reason
     where excluded.state <> h.state;
  end if;
end $$;
