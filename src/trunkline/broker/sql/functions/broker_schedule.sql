/* Say who does the background work of the broker: 'services' (trunkline up, or an app; the quickest), or 'pg_cron', one job
   that is started every minute and looks every so often, and another for maintain().  The same call again changes only
   what differs; a change of the interval is seen within a second, of one
   above a minute within a minute.  With pg_cron the services stand aside.
   Errors: TL422 also where this database has no pg_cron. */
create or replace function trunkline.broker_schedule(by_whom text, every interval default null)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if by_whom is null or by_whom not in ('services', 'pg_cron') then
    raise exception using errcode = 'TL422', message = format('the work is done by "services" or by "pg_cron", got %s.', coalesce(quote_literal(by_whom), 'NULL'));
  elsif by_whom = 'pg_cron' and not exists (select from pg_extension x where x.extname = 'pg_cron') then
    raise exception using errcode = 'TL422', message = format('database "%s" has no pg_cron.', current_database()),
      hint = 'Where cron.database_name names this database: create extension pg_cron. Until then run trunkline up.';
  end if;
  if every is not null then
    perform trunkline.config_set('broker.schedule_every', every::text);
  end if;
  perform trunkline.config_set('broker.schedule', by_whom);
  if by_whom = 'pg_cron' then
    execute 'select cron.schedule($1, $2, $3), cron.schedule($4, $2, $5)'
      using 'trunkline: broker', '* * * * *', 'call trunkline.broker_work(''58 seconds'')', 'trunkline: upkeep', 'call trunkline.maintain()';
  elsif exists (select from pg_extension x where x.extname = 'pg_cron') then
    execute 'select cron.unschedule(j.jobid) from cron.job j where j.jobname like $1 and j.database = current_database()' using 'trunkline: %';
  end if;
end $$;
comment on function trunkline.broker_schedule(text, interval) is 'Say who does the background work of the broker: services, or pg_cron.';
select trunkline._access('broker_schedule(text, interval)', 'admin');
