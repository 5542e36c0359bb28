/* Refuse what the role that the session acts as may not do with a tube: TL404 without the tube, TL403 without one of the privileges. */
create or replace function trunkline._tube_may(tube text, variadic privileges text[])
returns void language plpgsql stable as $$
begin
  if not trunkline._may('tube:' || tube, privileges, trunkline._caller()) then
    perform trunkline._tube_row(tube);
    perform trunkline._check_may('tube:' || tube, variadic privileges);
  end if;
end $$;
