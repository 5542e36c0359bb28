/* The row of a topic that asks to be archived; TL404, or TL422 when it does not. */
create or replace function trunkline._log_archive_settings(topic text)
returns trunkline.log_topic language plpgsql stable as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
begin
  if not settings.archive then
    raise exception using errcode = 'TL422', message = format('topic "%s" does not ask to be archived.', topic),
      hint = 'Turn it on: log_alter(topic, archive => true).';
  end if;
  return settings;
end $$;
