/* TL404 unless there is a topic and a group of these names; NULL names none. */
create or replace function trunkline._log_group_named(topic text, group_name text)
returns void language plpgsql stable as $$
begin
  if topic is not null then
    perform trunkline._log_topic_row(topic);
  end if;
  if group_name is not null and not exists (
    select from trunkline.log_group g join trunkline.log_topic t using (topic_id) where g.group_name = $2 and ($1 is null or t.topic = $1)) then
    raise exception using errcode = 'TL404', message = case when topic is null then 'there is' else format('topic "%s" has', topic) end || format(' no group "%s".', left(group_name, 200)),
      hint = 'List groups with log_groups().';
  end if;
end $$;
