/* Delete a key, everywhere.  Answers UPDATE when it lived, INSERT when it did not (the deletion is remembered and told to other zones all the
   same), CONFLICT when if_version is not the version that is there.  Errors: TL403, TL404, TL409 the clock is too far ahead, TL422. */
create or replace function trunkline.kv_delete(namespace text, key text default null, if_version text default null)
returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._kv_check(namespace, array[key], null);
  return (select w.answer from trunkline._kv_write(namespace, array[key], array[null::jsonb], null, if_version) w);
end $$;
comment on function trunkline.kv_delete(text, text, text) is 'Delete a key, everywhere.';
select trunkline._access('kv_delete(text, text, text)', 'writer');
