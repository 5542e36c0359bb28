/* Forget a group and its positions.  TL404 when there is none. */
create or replace function trunkline.log_group_delete(topic text, group_name text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
begin
  perform trunkline._log_group_check(settings, group_name);
  perform trunkline._log_group_may(topic, group_name, 'manage');
  delete from trunkline.log_group g where g.topic_id = settings.topic_id and g.group_name = log_group_delete.group_name;
  if not found then
    raise exception using errcode = 'TL404', message = format('topic "%s" has no group "%s".', topic, group_name), hint = 'List groups with log_groups().';
  end if;
  delete from trunkline.cursor_key k where k.resource = any (trunkline._log_resources(settings.topic_id, log_group_delete.group_name));
  -- epochs go on: a member of the group that was must not be able to commit in one that is made anew
  update trunkline.owner o set epoch = o.epoch + 1, process = null, since = clock_timestamp()
   where o.resource = any (trunkline._log_resources(settings.topic_id, log_group_delete.group_name));
  delete from trunkline.party p where p.party = trunkline._log_party(settings.topic_id, log_group_delete.group_name);
end $$;
comment on function trunkline.log_group_delete(text, text) is 'Forget a group and its positions.';
select trunkline._access('log_group_delete(text, text)', 'writer');
