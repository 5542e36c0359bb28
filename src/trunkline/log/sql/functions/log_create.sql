/* Create a topic.  The same call again is harmless; other settings for a topic that is there are TL409.
   codec is what clients use by default.  Writes: log_topic, log_partition, log_segment, one table per partition. */
create or replace function trunkline.log_create(
  topic text, partitions int default 1, retention interval default null, retention_bytes bigint default null,
  compact boolean default false, codec text default 'none', early_release boolean default false, archive boolean default false)
returns trunkline.log_topic language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  wanted trunkline.log_topic;
  present trunkline.log_topic;
begin
  perform trunkline._log_check_name('topic', topic);
  perform trunkline._reserved_refuse('topic', topic);
  wanted := row(null, topic, partitions, retention, retention_bytes, compact, codec, early_release, null, archive);
  perform trunkline._log_check_settings(wanted);
  insert into trunkline.log_topic (topic, partitions, retention, retention_bytes, compact, codec, early_release, archive)
  values (wanted.topic, wanted.partitions, wanted.retention, wanted.retention_bytes, wanted.compact, wanted.codec, wanted.early_release, wanted.archive)
  on conflict on constraint log_topic_name do nothing returning * into present;
  if found then
    perform trunkline._log_partitions_add(present.topic_id, present.partitions);
    return present;
  end if;
  present := trunkline._log_topic_row(topic);
  wanted.topic_id := present.topic_id;
  wanted.created_at := present.created_at;
  if wanted is distinct from present then
    raise exception using errcode = 'TL409', message = format('topic "%s" is there with other settings.', topic),
      hint = 'Change them with log_alter().', detail = jsonb_build_object('present', to_jsonb(present))::text;
  end if;
  return present;
end $$;
comment on function trunkline.log_create(text, int, interval, bigint, boolean, text, boolean, boolean) is
  'Create a topic; harmless when it is there with the same settings.';
select trunkline._access('log_create(text, int, interval, bigint, boolean, text, boolean, boolean)', 'writer');
