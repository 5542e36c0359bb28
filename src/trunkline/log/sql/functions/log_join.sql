/* Take part in an assigned group, and learn what is yours: one row per partition owned, with the epoch to commit
   with and the last offset done.  Call it again every few seconds and after a wake-up: it takes partitions
   that are free up to a fair share and marks surplus ones, which the member finishes and gives back with
   log_leave().  Writes nothing when nothing changed.  The process needs a living lease (TL423).
   Errors: TL404, TL409 group of another mode, TL423. */
create or replace function trunkline.log_join(topic text, group_name text, process uuid, member text default '', start text default 'earliest')
returns table (partition int, epoch bigint, up_to bigint, surplus boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
  part trunkline.log_partition;
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    perform 1 from trunkline.ring r where r.ring = 'cursor' for share;  -- a snapshot may be too old to find positions: see _cursor_hold()
  end if;
  perform trunkline._log_group_may(topic, group_name, 'consume');
  perform trunkline._log_group_ensure(settings, group_name, 'assigned', start);
  -- a partition is taken after the last commit of the process before: the position is read in a later statement
  for partition, epoch, surplus in
    select s.place - 1, s.epoch, s.surplus from trunkline._party_share(trunkline._log_party(settings.topic_id, group_name),
      trunkline._log_resources(settings.topic_id, group_name), process, coalesce(member, '')) s order by s.place
  loop
    if pg_current_xact_id_if_assigned() is not null then  -- something was taken: not of a topic that is being deleted
      perform 1 from trunkline.log_topic t where t.topic_id = settings.topic_id for key share;
    end if;
    select p.* into part from trunkline.log_partition p where p.topic_id = settings.topic_id and p.partition = log_join.partition;
    if not found then
      raise exception using errcode = 'TL404', message = format('topic "%s" was deleted.', topic), detail = jsonb_build_object('topic', topic)::text;
    end if;
    up_to := trunkline._log_position(part, group_name);
    return next;
  end loop;
end $$;
comment on function trunkline.log_join(text, text, uuid, text, text) is
  'Take part in an assigned group: the partitions that are yours, with epoch and position.';
select trunkline._access('log_join(text, text, uuid, text, text)', 'reader');
