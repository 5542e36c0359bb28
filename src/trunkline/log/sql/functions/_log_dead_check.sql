/* TL415 for a dead letter that a client has compressed. */
create or replace function trunkline._log_dead_check(topic text, letter bigint, readable boolean)
returns void language plpgsql as $$
begin
  if not readable then
    raise exception using errcode = 'TL415', message = format('dead letter %s of topic "%s" is compressed with zstd, which SQL cannot read.', letter, topic),
      hint = format('Read it with a client: trunkline log read %s --from %s.', trunkline._log_dead_topic(topic), letter), detail = jsonb_build_object('topic', topic, 'letter', letter)::text;
  end if;
end $$;
