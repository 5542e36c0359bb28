/* The row of a tube, held so that its lanes and condition stay as they are until commit; TL404. */
create or replace function trunkline._tube_hold(tube_id int)
returns trunkline.tube language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube;
begin
  select t.* into present from trunkline.tube t where t.tube_id = _tube_hold.tube_id for share;
  if not found then
    raise exception using errcode = 'TL404', message = 'the tube was dropped meanwhile.';
  end if;
  return present;
end $$;
select trunkline._access('_tube_hold(int)', 'writer');
