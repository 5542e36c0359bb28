/* Lock tables; 55P03 when that takes longer than allowed, all of them together. */
create or replace function trunkline._hook_lock_once(relations regclass[], mode text, most interval)
returns void language plpgsql as $$
declare
  before text := current_setting('lock_timeout');
  until timestamptz := clock_timestamp() + most;
  relation regclass;
begin
  foreach relation in array relations loop
    perform set_config('lock_timeout', greatest(1, ceil(1000 * extract(epoch from until - clock_timestamp())))::int || 'ms', true);
    execute format('lock table only %s in %s mode', relation, mode);
  end loop;
  perform set_config('lock_timeout', before, true);
end $$;
select trunkline._access('_hook_lock_once(regclass[], text, interval)', 'writer');
