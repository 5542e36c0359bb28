/* Make a group beforehand: to choose its lanes, the number of shares in which its work can be divided.  The same call
   again changes nothing.  A group that is not lasting goes with its last subscription.  Errors: TL409, TL422. */
create or replace function trunkline.broker_group(group_name text, lanes int default null, lasting boolean default true)
returns int language sql security definer set search_path = pg_catalog, pg_temp as $$
  select (trunkline._broker_group_ensure(group_name, lanes, lasting)).group_id;
$$;
comment on function trunkline.broker_group(text, int, boolean) is 'Make a group, and choose its lanes.';
select trunkline._access('broker_group(text, int, boolean)', 'writer');
