/* A duty of maintain(): compact one partition that has sealed segments not yet compacted.  One that fails does not
   keep the others from their turn. */
create or replace function trunkline.log_topics_compact()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  next record;
  plan record;
  trouble text;
begin
  for next in select distinct t.topic, s.partition from trunkline.log_topic t join trunkline.log_segment s using (topic_id)
               where t.compact and s.last_offset is not null and s.compacted_at is null loop
    begin
      plan := trunkline._log_compact(next.topic, next.partition, false);
      perform set_config('lock_timeout', (1000 * extract(epoch from trunkline._setting('maintain.lock_timeout')::interval))::int || 'ms', true);
      perform trunkline._log_compact_swap(next.topic, next.partition, plan.segments, plan.copies, plan.copied);
      return true;
    exception
      when lock_not_available then null;  -- an append is under way for long: the next round tries again
      when others then trouble := format('topic "%s", partition %s: %s (%s)', next.topic, next.partition, sqlerrm, sqlstate);
    end;
  end loop;
  if trouble is not null then
    raise exception '%', trouble;
  end if;
  return false;
end $$;
comment on function trunkline.log_topics_compact() is 'Compact one partition that has sealed segments not yet compacted; a duty of maintain().';
select trunkline._access('log_topics_compact()', 'admin');
insert into trunkline.duty (duty, rank) values ('log_topics_compact', 30) on conflict do nothing;
