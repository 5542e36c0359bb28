/* The group, made on first use with a cursor per partition; a group has one mode.  Harmless when called twice.
   Was it made by this call? */
create or replace function trunkline._log_group_ensure(settings trunkline.log_topic, group_name text, mode text, start text)
returns boolean language plpgsql as $$
declare
  part trunkline.log_partition;
  present text;
begin
  select g.mode into present from trunkline.log_group g where g.topic_id = settings.topic_id and g.group_name = _log_group_ensure.group_name;
  if not found then
    perform trunkline._log_check_name('group', group_name);
    perform trunkline._lock_briefly();
    perform trunkline._reserved_refuse('group', group_name);
    begin
      insert into trunkline.log_group (topic_id, group_name, mode) values (settings.topic_id, _log_group_ensure.group_name, _log_group_ensure.mode)
      on conflict on constraint log_group_pkey do nothing returning log_group.mode into present;
    exception when foreign_key_violation then
      raise exception using errcode = 'TL404', message = format('topic "%s" was deleted.', settings.topic),
        detail = jsonb_build_object('topic', settings.topic)::text;
    end;
    if present is not null then
      -- epochs go on where a topic of this name had this group: see log_delete()
      perform trunkline._owners_move(format('gone:%s:%s:', settings.topic, group_name), format('log:%s:%s:', settings.topic_id, group_name));
      for part in select p.* from trunkline.log_partition p where p.topic_id = settings.topic_id order by p.partition loop
        perform trunkline._cursor_move(trunkline._cursor_hold(trunkline._log_resource(settings.topic_id, group_name, part.partition)),
                                       trunkline._log_start(settings.topic, part, start) - 1);
      end loop;
      return true;
    end if;
    select g.mode into present from trunkline.log_group g where g.topic_id = settings.topic_id and g.group_name = _log_group_ensure.group_name;
  end if;
  if present <> mode then
    raise exception using errcode = 'TL409', message = format('group "%s" of "%s" is %s, not %s.', group_name, settings.topic, present, mode),
      hint = 'Use another group name.', detail = jsonb_build_object('mode', present)::text;
  end if;
  return false;
end $$;
