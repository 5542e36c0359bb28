/* Refuse what the role that the session acts as may not do with a group: TL403.  To make a group it needs "consume" on the topic. */
create or replace function trunkline._log_group_may(topic text, group_name text, privilege text)
returns void language plpgsql stable as $$
declare
  id text := format('topic_group:%s/%s', topic, group_name);
begin
  if exists (select from trunkline.object o where o.object = id) then
    perform trunkline._check_may(id, privilege);
  else
    perform trunkline._log_may(topic, 'consume');
  end if;
end $$;
