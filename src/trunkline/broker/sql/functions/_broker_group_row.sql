/* The row of a group; TL404. */
create or replace function trunkline._broker_group_row(group_name text)
returns trunkline.broker_group language plpgsql stable as $$
declare
  present trunkline.broker_group;
begin
  select g.* into present from trunkline.broker_group g where g.group_name = _broker_group_row.group_name;
  if not found then
    raise exception using errcode = 'TL404', message = format('there is no group %s.', coalesce('"' || left(group_name, 200) || '"', 'NULL')),
      hint = 'A group is made by broker_subscribe(); list them with broker_groups().', detail = jsonb_build_object('group_name', group_name)::text;
  end if;
  return present;
end $$;
