/* The row of a group for which the role that the session acts as has a privilege.  Errors: TL403, TL404. */
create or replace function trunkline._broker_group_for(group_name text, privilege text)
returns trunkline.broker_group language plpgsql stable as $$
declare
  present trunkline.broker_group := trunkline._broker_group_row(group_name);
begin
  perform trunkline._check_may('group:' || group_name, privilege);
  return present;
end $$;
