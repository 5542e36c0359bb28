/* Where reading may begin and where it ends at this moment, and the life of the server: what a reader plans with.
   Positions of events, or with a group the numbers of its deliveries.  first_one is last_one + 1 where there is nothing.
   Reads only.  Errors: TL404. */
create or replace function trunkline.broker_ends(group_name text default null)
returns table (first_one bigint, last_one bigint, incarnation int)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group;
begin
  incarnation := trunkline.incarnation();
  if group_name is null then
    last_one := trunkline.broker_head();
    first_one := least(greatest(trunkline._event_keep_from(), 1), last_one + 1);
  else
    present := trunkline._broker_group_row(group_name);
    last_one := trunkline._broker_delivered();
    first_one := greatest(present.begins_after, present.trimmed_to, present.left_to) + 1;
  end if;
  return next;
end $$;
comment on function trunkline.broker_ends(text) is 'Where reading events, or the deliveries of a group, may begin and where it ends.';
select trunkline._access('broker_ends(text)', 'reader');
