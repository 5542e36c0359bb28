/* Make or change the row of a tube.  NULL keeps what is there; a condition of '' means none.  The role that names a condition
   answers for it: the condition runs as that role.  Writes and locks nothing when nothing changes. */
create or replace function trunkline._tube_put(tube text, lanes int, condition text)
returns trunkline.tube language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  before trunkline.tube;
  after trunkline.tube;
begin
  perform trunkline._lock_briefly();
  if tube is null or tube !~ '^[A-Za-z0-9._-]{1,200}$' then
    perform trunkline._raise('TL422', format('a tube name has 1 to 200 letters, digits, ".", "_" or "-", got %s.', coalesce(quote_literal(left(tube, 80)), 'NULL')));
  elsif lanes not between 1 and 1024 then
    perform trunkline._raise('TL422', format('lanes must be between 1 and 1024, got %s.', lanes));
  end if;
  select t.* into before from trunkline.tube t where t.tube = _tube_put.tube;
  if not found then
    perform trunkline._reserved_refuse('tube', tube);
    insert into trunkline.tube (tube, lanes, condition, role)
    values (_tube_put.tube, coalesce(_tube_put.lanes, 1), nullif(_tube_put.condition, ''), case when _tube_put.condition <> '' then trunkline._caller() end)
    on conflict on constraint tube_name do nothing returning * into after;
    if found then
      perform trunkline._tube_lanes_begin(after, trunkline.tube_head());
      return after;
    end if;
  elsif before.lanes = coalesce(_tube_put.lanes, before.lanes)
        and before.condition is not distinct from nullif(coalesce(_tube_put.condition, before.condition), '')
        and (coalesce(_tube_put.condition, '') = '' or before.role is not distinct from trunkline._caller()) then
    return before;
  end if;
  perform trunkline._tube_may(tube, 'manage');
  select t.* into strict before from trunkline.tube t where t.tube = _tube_put.tube for no key update;
  update trunkline.tube t set lanes = coalesce(_tube_put.lanes, t.lanes), condition = nullif(coalesce(_tube_put.condition, t.condition), ''),
         role = case _tube_put.condition when '' then null else case when _tube_put.condition is null then t.role else trunkline._caller() end end
   where t.tube_id = before.tube_id returning * into after;
  if after.lanes <> before.lanes then
    perform trunkline._tube_lanes_change(before, after);
  end if;
  return after;
end $$;
select trunkline._access('_tube_put(text, int, text)', 'writer');
