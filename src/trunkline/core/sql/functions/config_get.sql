/* The value of a setting.  TL404 when there is none of that name. */
create or replace function trunkline.config_get(name text)
returns text language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  found_value text := trunkline._setting(name);
begin
  if found_value is null then
    raise exception using errcode = 'TL404', message = format('there is no setting "%s".', name),
      hint = 'List them with config_list().', detail = jsonb_build_object('name', name)::text;
  end if;
  return found_value;
end $$;
comment on function trunkline.config_get(text) is 'The value of a setting.';
select trunkline._access('config_get(text)', 'reader');
