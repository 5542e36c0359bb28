/* TL404 for a dead letter that is not there, or settled already. */
create or replace function trunkline._log_dead_missing(topic text, letter bigint)
returns void language plpgsql as $$
begin
  perform trunkline._raise('TL404', format('there is no dead letter %s of topic "%s".', coalesce(letter::text, 'NULL'), left(topic, 200)),
    'It may be settled. List what there is with log_dead_list().', jsonb_build_object('topic', topic, 'letter', letter));
end $$;
