/* The row of a tube, or TL404.  Runs as the owner of the schema, for functions that run as their caller. */
create or replace function trunkline._tube_row(tube text)
returns trunkline.tube language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube;
begin
  select t.* into present from trunkline.tube t where t.tube = _tube_row.tube;
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no tube %s.', coalesce('"' || left(tube, 200) || '"', 'NULL')),
      hint = 'Make it with tube_ensure(), or list what there is with tube_list().', detail = jsonb_build_object('tube', tube)::text;
  end if;
  return present;
end $$;
select trunkline._access('_tube_row(text)', 'reader');
