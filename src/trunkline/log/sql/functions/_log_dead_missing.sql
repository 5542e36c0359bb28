/* TL404 for a dead letter that is not there, or settled already. */
create or replace function trunkline._log_dead_missing(topic text, letter bigint)
returns void language plpgsql as $$
begin
  raise exception using errcode = 'TL404', message = format('there is no dead letter %s of topic "%s".', coalesce(letter::text, 'NULL'), left(topic, 200)),
    hint = 'It may be settled. List what there is with log_dead_list().', detail = jsonb_build_object('topic', topic, 'letter', letter)::text;
end $$;
