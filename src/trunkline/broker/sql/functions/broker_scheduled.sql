/* Who does the background work of the broker, and with pg_cron its jobs: whether they are active, when they last began and
   how that ended. */
create or replace function trunkline.broker_scheduled()
returns table (by_whom text, every interval, job text, active boolean, began_at timestamptz, status text, message text)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  if trunkline.config_get('broker.schedule') = 'pg_cron' and to_regclass('cron.job') is not null then
    return query execute $sql$
      select 'pg_cron', trunkline.config_get('broker.schedule_every')::interval, n.job, coalesce(j.active, false), r.start_time, r.status, r.return_message
        from unnest(array['trunkline: broker', 'trunkline: upkeep']) n (job)
        left join cron.job j on j.jobname = n.job and j.database = current_database()
        left join lateral (select d.* from cron.job_run_details d where d.jobid = j.jobid order by d.runid desc limit 1) r on true $sql$;
  else
    return query select trunkline.config_get('broker.schedule'), null::interval, null::text, null::boolean, null::timestamptz, null::text, null::text;
  end if;
end $$;
comment on function trunkline.broker_scheduled() is 'Who does the background work of the broker, and how that goes.';
select trunkline._access('broker_scheduled()', 'reader');
