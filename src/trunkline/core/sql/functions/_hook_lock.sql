/* Lock tables, all or none, in small tries: whoever comes behind us waits no longer than the setting <settings>_lock_timeout.
   TL409 when <settings>_patience is over. */
create or replace function trunkline._hook_lock(relations regclass[], mode text, settings text)
returns void language plpgsql as $$
declare
  patience text := trunkline.config_get(settings || '_patience');
  give_up timestamptz := clock_timestamp() + patience::interval;
  most interval := trunkline.config_get(settings || '_lock_timeout');
begin
  loop
    begin
      perform trunkline._hook_lock_once(relations, mode, most);
      return;
    exception when lock_not_available then
      if clock_timestamp() > give_up then
        raise exception using errcode = 'TL409', message = format('table %s is in use: no lock in %s.', array_to_string(relations, ', '), patience),
          hint = format('See who holds it with doctor_blockers(), or raise the setting %s_patience.', settings);
      end if;
    end;
    perform pg_sleep(0.05 + random() * 0.2);
  end loop;
end $$;
select trunkline._access('_hook_lock(regclass[], text, text)', 'writer');
