/* The last statement of every acknowledgement: the epoch is still the present one, and stays so until
   this transaction ends, because the row is held FOR SHARE and no other process takes it over meanwhile. */
create or replace function trunkline._owner_check(resource text, epoch bigint)
returns void language plpgsql as $$
begin
  if now() <> statement_timestamp() then perform trunkline._lock_briefly(); end if;
  perform 1 from trunkline.owner o cross join trunkline._incarnation_present() i
    where o.resource = _owner_check.resource and o.epoch = _owner_check.epoch and o.process is not null
      and o.epoch > trunkline._epoch_floor(i.incarnation)
    for share of o;
  if not found then
    perform trunkline._owner_over(resource, epoch);
  end if;
end $$;
