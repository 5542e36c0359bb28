/* Groups that are at their end, locked: those that go with their last subscription and have none, and those that nobody
   has read for broker.abandoned_after.  Whoever reads is a member by broker_join(); webhooks stay until they are removed.  Notes since when nobody is. */
create or replace function trunkline._groups_over()
returns table (group_id int) language plpgsql as $$
declare
  present record;
  patience interval := trunkline._setting('broker.abandoned_after')::interval;
begin
  for present in
    select g.group_id, g.group_name, g.lasting, g.idle_since, u.used, s.wanted from trunkline.broker_group g
     cross join lateral (select exists (select from trunkline.party p join trunkline.lease l using (process)
                           where starts_with(p.party, format('broker:%s:', g.group_id)) and l.expires > clock_timestamp())
                             or exists (select from trunkline.broker_webhook w where w.group_id = g.group_id) as used) u
     cross join lateral (select exists (select from trunkline.broker_subscription s where s.group_id = g.group_id) as wanted) s
     where case when u.used then g.idle_since is not null
                else g.idle_since is null or g.idle_since < clock_timestamp() - patience or not (g.lasting or s.wanted) end
     limit 1000
  loop
    -- whoever subscribes holds the row: then the group is not at its end
    perform 1 from trunkline.broker_group g where g.group_id = present.group_id for update skip locked;
    continue when not found;
    if present.used then
      update trunkline.broker_group g set idle_since = null where g.group_id = present.group_id;
    elsif not present.lasting and not exists (select from trunkline.broker_subscription s where s.group_id = present.group_id) then
      group_id := present.group_id;
      return next;
    elsif present.idle_since is null then
      update trunkline.broker_group g set idle_since = clock_timestamp() where g.group_id = present.group_id;
    elsif present.idle_since < clock_timestamp() - patience then
      raise warning 'group "%" was not read for %: it is deleted', present.group_name, patience;
      group_id := present.group_id;
      return next;
    end if;
  end loop;
end $$;
