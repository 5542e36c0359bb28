/* Lock tables, all or none, in small tries: whoever comes behind us waits no longer than tube.attach_lock_timeout.
   TL409 when tube.attach_patience is over. */
create or replace function trunkline._tube_lock(relations regclass[], mode text)
returns void language plpgsql as $$
declare
  give_up timestamptz := clock_timestamp() + trunkline.config_get('tube.attach_patience')::interval;
  most interval := trunkline.config_get('tube.attach_lock_timeout');
begin
  loop
    begin
      perform trunkline._tube_lock_once(relations, mode, most);
      return;
    exception when lock_not_available then
      if clock_timestamp() > give_up then
        perform trunkline._raise('TL409', format('table %s is in use: no lock in %s.', array_to_string(relations, ', '), trunkline.config_get('tube.attach_patience')),
          'See who holds it with doctor_blockers(), or raise the setting tube.attach_patience.');
      end if;
    end;
    perform pg_sleep(0.05 + random() * 0.2);
  end loop;
end $$;
select trunkline._access('_tube_lock(regclass[], text)', 'writer');
