/* The row of a group, made on first use; what is NULL stays as it is.  A group that lasts once does so for good.
   Errors: TL403 it is there and the role may not consume it, TL409 other lanes than those it has, TL422. */
create or replace function trunkline._broker_group_ensure(group_name text, lanes int, lasting boolean)
returns trunkline.broker_group language plpgsql as $$
declare
  present trunkline.broker_group;
begin
  if group_name is null or group_name !~ '^[^[:cntrl:]]{1,200}$' then
    raise exception using errcode = 'TL422', message = format('the name of a group has 1 to 200 characters, none of them a control character, got %s.', coalesce(quote_literal(left(group_name, 80)), 'NULL'));
  elsif lanes not between 1 and 64 then
    raise exception using errcode = 'TL422', message = format('a group has 1 to 64 lanes, got %s.', lanes);
  end if;
  select g.* into present from trunkline.broker_group g where g.group_name = _broker_group_ensure.group_name;
  if found then
    perform trunkline._check_may('group:' || group_name, 'consume');
  else
    perform trunkline._reserved_refuse('group', group_name);
    insert into trunkline.broker_group as g (group_name, lanes, lasting, begins_after)
    values (_broker_group_ensure.group_name, coalesce(_broker_group_ensure.lanes, trunkline._setting('broker.lanes')::int),
            coalesce(_broker_group_ensure.lasting, true), trunkline._broker_delivered())
    on conflict on constraint broker_group_name do nothing;
    select g.* into strict present from trunkline.broker_group g where g.group_name = _broker_group_ensure.group_name;
  end if;
  if present.lanes <> lanes then
    raise exception using errcode = 'TL409', message = format('group "%s" has %s, not %s.', group_name, trunkline._counted(present.lanes, 'lane'), lanes),
      hint = 'Lanes are chosen when a group is made, because they keep the events of a key in order: make another group.', detail = jsonb_build_object('lanes', present.lanes)::text;
  end if;
  if lasting and not present.lasting then
    update trunkline.broker_group g set lasting = true where g.group_id = present.group_id returning g.* into present;
  end if;
  return present;
end $$;
