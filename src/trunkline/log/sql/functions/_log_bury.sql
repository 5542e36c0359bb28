/* Append one dead letter: a message with what is told about it as its header dead; its number.  What the message has under
   that name goes along, and so does that it is a tombstone, which only a compacted topic takes. */
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
  batch := trunkline._log_pack(array[coalesce(value, '')], array[key], array[coalesce(headers, '{}') || jsonb_build_object('dead', about)]);
  return (trunkline._log_store(topic, 0, 1, 0, batch.value_ends, batch.payload, null, batch.key_ends, batch.keys, null, batch.headers, null, null)).first_offset;
end $$;
