/* The row of a handler; TL404. */
create or replace function trunkline._broker_handler_row(present trunkline.broker_group, handler text)
returns trunkline.broker_handler language plpgsql stable as $$
declare
  reader trunkline.broker_handler;
begin
  select h.* into reader from trunkline.broker_handler h where h.group_id = present.group_id and h.handler = _broker_handler_row.handler;
  if not found then
    raise exception using errcode = 'TL404', message = format('group "%s" has no handler %s.', present.group_name, coalesce('"' || left(handler, 200) || '"', 'NULL')),
      hint = 'A handler is made by broker_join(), or by broker_subscribe() with its name.', detail = jsonb_build_object('group_name', present.group_name, 'handler', handler)::text;
  end if;
  return reader;
end $$;
