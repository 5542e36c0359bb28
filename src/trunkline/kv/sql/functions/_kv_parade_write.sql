/* Say something of the parade, for all of its instances; NULL takes it back.  Returns whether that changed anything. */
create or replace function trunkline._kv_parade_write(key text, value jsonb)
returns boolean language plpgsql as $$
begin
  if (select e.value from trunkline.kv_entry e where e.namespace = 'parade' and e.key = _kv_parade_write.key) is not distinct from value then
    return false;
  end if;
  perform trunkline._kv_write('parade', array[key], array[value], null);
  return true;
end $$;
