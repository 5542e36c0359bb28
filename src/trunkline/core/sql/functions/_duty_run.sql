/* One step of one duty; its failure is noted, not raised.  Returns whether there is more to do. */
create or replace function trunkline._duty_run(duty text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  more boolean := false;
  trouble text;
begin
  perform trunkline._lock_briefly();
  perform 1 from trunkline.duty d where d.duty = _duty_run.duty for no key update skip locked;
  if not found then
    return false;
  end if;
  begin
    execute format('select trunkline.%I()', duty) into more;
  exception when others then
    trouble := format('%s (%s)', sqlerrm, sqlstate);
    raise warning 'maintenance "%" failed: %', duty, trouble;
  end;
  -- an idle installation writes this at most once a minute
  update trunkline.duty d set ran_at = clock_timestamp(), error = trouble,
         failed_at = case when trouble is null then d.failed_at else clock_timestamp() end
   where d.duty = _duty_run.duty
     and (trouble is distinct from d.error or d.ran_at is null or d.ran_at < clock_timestamp() - interval '1 minute');
  return coalesce(more, false);
end $$;
select trunkline._access('_duty_run(text)', 'admin');
