/* A duty of maintain(): compact one partition that has sealed segments not yet compacted. */
create or replace function trunkline.log_topics_compact()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  next record;
begin
  select t.topic, s.partition into next from trunkline.log_topic t join trunkline.log_segment s using (topic_id)
   where t.compact and s.last_offset is not null and s.compacted_at is null limit 1;
  if not found then
    return false;
  end if;
  perform trunkline.log_compact(next.topic, next.partition);
  return true;
end $$;
comment on function trunkline.log_topics_compact() is 'Compact one partition that has sealed segments not yet compacted; a duty of maintain().';
select trunkline._access('log_topics_compact()', 'admin');
insert into trunkline.duty (duty, rank) values ('log_topics_compact', 30) on conflict do nothing;
