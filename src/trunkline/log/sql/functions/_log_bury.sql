/* Append one dead letter: a message with what is told about it as its header dead; its number.  What the message has under
   that name goes along, and so does that it is a tombstone, which only a compacted topic takes.
   A topic of letters that was created as a compacted one needs keys and would drop all letters of a key but the
   newest: there each has a key of its own, and the key of the message goes along as key_hex. */
create or replace function trunkline._log_bury(topic text, about jsonb, key bytea, value bytea, headers jsonb)
returns bigint language plpgsql as $$
declare
  batch trunkline.log_batch;
begin
  if value is null then
    about := about || '{"tombstone": true}';
  end if;
  if headers ? 'dead' then
    about := about || jsonb_build_object('dead', headers -> 'dead');
  end if;
  if (select t.compact from trunkline.log_topic t where t.topic = _log_bury.topic) then
    about := about || jsonb_build_object('key_hex', encode(key, 'hex'));
    key := uuid_send(gen_random_uuid());
  end if;
  batch := trunkline._log_pack(array[coalesce(value, '')], array[key], array[coalesce(headers, '{}') || jsonb_build_object('dead', about)]);
  return (trunkline._log_store(topic, 0, 1, 0, batch.value_ends, batch.payload, null, batch.key_ends, batch.keys, null, batch.headers, null, null)).first_offset;
end $$;
