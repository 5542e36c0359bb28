/* Lock a table in small tries, so that nobody waits long behind us. */
create or replace function trunkline._tube_lock(relation regclass, mode text)
returns void language plpgsql as $$
declare
  give_up timestamptz := clock_timestamp() + trunkline.config_get('tube.attach_patience')::interval;
  wait text := (1000 * extract(epoch from trunkline.config_get('tube.attach_lock_timeout')::interval))::int || 'ms';
begin
  loop
    begin
      perform set_config('lock_timeout', wait, true);
      execute format('lock table %s in %s mode', relation, mode);
      perform set_config('lock_timeout', '0', true);
      return;
    exception when lock_not_available then
      if clock_timestamp() > give_up then
        perform trunkline._raise('TL409', format('table %s is in use: no lock in %s.', relation, trunkline.config_get('tube.attach_patience')),
          'See who holds it with doctor_blockers(), or raise the setting tube.attach_patience.');
      end if;
      perform pg_sleep(0.05 + random() * 0.2);
    end;
  end loop;
end $$;
select trunkline._access('_tube_lock(regclass, text)', 'writer');
