/* TL404 unless a topic has a group.  Whoever waited for a cursor asks again: the group may have been deleted meanwhile, and its
   cursor was made anew for nobody. */
create or replace function trunkline._log_group_check(settings trunkline.log_topic, group_name text)
returns void language plpgsql as $$
begin
  if not exists (select from trunkline.log_group g where g.topic_id = settings.topic_id and g.group_name = _log_group_check.group_name) then
    raise exception using errcode = 'TL404', message = format('topic "%s" has no group "%s".', settings.topic, group_name),
      hint = 'List groups with log_groups().';
  end if;
end $$;
