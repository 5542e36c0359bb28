/* A partition for messages without a key: one at random that no other transaction holds, if there is one.
   Locks: it. */
create or replace function trunkline._log_partition_free(settings trunkline.log_topic)
returns int language plpgsql as $$
declare
  wanted int := floor(random() * settings.partitions);
  free int;
begin
  select p.partition into free from trunkline.log_partition p
   where p.topic_id = settings.topic_id and p.partition = wanted for no key update skip locked;
  if not found and settings.partitions > 1 then
    perform trunkline._lock_briefly();
    select p.partition into free from trunkline.log_partition p
     where p.topic_id = settings.topic_id order by random() limit 1 for no key update skip locked;
  end if;
  return coalesce(free, wanted);
end $$;
