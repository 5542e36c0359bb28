/* Delete a handler that nobody will run again, with its positions, retries and dead letters, and its subscription unless
   another handler of the group has it too.  What it has not read no longer stays for it.
   Errors: TL404; TL409 while somebody works on it, or when it is a webhook. */
create or replace function trunkline.broker_handler_delete(group_name text, handler text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_for(group_name, 'manage');
  reader trunkline.broker_handler := trunkline._broker_handler_row(present, handler);
  busy text;
begin
  if exists (select from trunkline.broker_webhook w where w.group_id = present.group_id and trunkline._webhook_handler(w.webhook) = reader.handler) then
    raise exception using errcode = 'TL409', message = format('handler "%s" of group "%s" is a webhook.', handler, group_name),
      hint = 'Remove it with broker_webhook_remove().';
  end if;
  select coalesce(nullif(l.name, ''), l.process::text) into busy from trunkline.party p join trunkline.lease l using (process)
   where p.party = format('broker:%s:%s', present.group_id, handler) and l.expires > clock_timestamp() limit 1;
  if found then
    raise exception using errcode = 'TL409', message = format('handler "%s" of group "%s" is in use by %s.', handler, group_name, busy),
      hint = 'Stop its workers first.', detail = jsonb_build_object('process', busy)::text;
  end if;
  perform trunkline._broker_handler_end(present.group_id, reader.handler);
end $$;
comment on function trunkline.broker_handler_delete(text, text) is 'Delete a handler that nobody will run again, with its positions and dead letters.';
select trunkline._access('broker_handler_delete(text, text)', 'writer');
