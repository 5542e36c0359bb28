/* Take part in an assigned group, and learn what is yours: one row per partition owned, with the epoch to commit
   with and the last offset done.  Call it again every few seconds and after a wake-up: it takes partitions
   that are free up to a fair share and marks surplus ones, which the member finishes and gives back with
   log_leave().  Writes nothing when nothing changed.  The process needs a living lease (TL423).
   Errors: TL404, TL409 group of another mode, TL423. */
create or replace function trunkline.log_join(topic text, group_name text, process uuid, member text default '', start text default 'earliest')
returns table (partition int, epoch bigint, up_to bigint, surplus boolean)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  settings trunkline.log_topic := trunkline._log_topic_row(topic);
  members int;
  my_rank int;
  share int;
  mine int[];
  free record;
begin
  if not trunkline._lease_living(process) then
    perform trunkline._raise('TL423', format('process %s has no living lease.', process), 'Call lease_renew() first, and every third of lease.ttl.');
  end if;
  perform trunkline._log_group_ensure(settings, group_name, 'assigned', start);
  insert into trunkline.log_member (topic_id, group_name, process, member)
  select settings.topic_id, log_join.group_name, log_join.process, log_join.member
   where not exists (select from trunkline.log_member m where m.topic_id = settings.topic_id and m.group_name = log_join.group_name
                        and m.process = log_join.process and m.member = log_join.member)
  on conflict on constraint log_member_pkey do nothing;

  select count(*), count(*) filter (where (m.process, m.member) < (log_join.process, log_join.member)) into members, my_rank
    from trunkline.log_member m
   where m.topic_id = settings.topic_id and m.group_name = log_join.group_name and trunkline._lease_living(m.process);
  share := settings.partitions / members + (my_rank < settings.partitions % members)::int;

  select coalesce(array_agg(p.partition order by p.partition), '{}') into mine
    from trunkline.log_partition p join trunkline.owner o on o.resource = trunkline._log_resource(p.topic_id, log_join.group_name, p.partition)
   where p.topic_id = settings.topic_id and o.process = log_join.process and o.member = log_join.member;
  if cardinality(mine) < share then
    for free in
      select p.partition from trunkline.log_partition p
        left join trunkline.owner o on o.resource = trunkline._log_resource(p.topic_id, log_join.group_name, p.partition)
       where p.topic_id = settings.topic_id and (o.process is null or not trunkline._lease_living(o.process))
       order by p.partition
    loop
      exit when cardinality(mine) >= share;
      if trunkline._owner_take(trunkline._log_resource(settings.topic_id, group_name, free.partition), process, member, clock_timestamp()) is not null then
        mine := mine || free.partition;
      end if;
    end loop;
  end if;

  return query
    select p.partition, o.epoch, trunkline._log_position(p, log_join.group_name),
           row_number() over (order by p.partition) > share
      from trunkline.log_partition p join trunkline.owner o on o.resource = trunkline._log_resource(p.topic_id, log_join.group_name, p.partition)
     where p.topic_id = settings.topic_id and o.process = log_join.process and o.member = log_join.member
     order by p.partition;
end $$;
comment on function trunkline.log_join(text, text, uuid, text, text) is
  'Take part in an assigned group: the partitions that are yours, with epoch and position.';
select trunkline._access('log_join(text, text, uuid, text, text)', 'reader');
