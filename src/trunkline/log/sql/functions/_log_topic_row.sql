/* The row of a topic, or TL404. */
create or replace function trunkline._log_topic_row(topic text)
returns trunkline.log_topic language plpgsql stable as $$
declare
  found_topic trunkline.log_topic;
begin
  select t.* into found_topic from trunkline.log_topic t where t.topic = _log_topic_row.topic;
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no topic %s.', coalesce('"' || left(topic, 200) || '"', 'NULL')),
      hint = 'Create it with log_create(), or list what there is with log_list().', detail = jsonb_build_object('topic', topic)::text;
  end if;
  return found_topic;
end $$;
