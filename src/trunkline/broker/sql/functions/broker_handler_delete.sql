/* Delete a handler that nobody will run again, with its positions, retries and dead letters, and its subscription unless
   another handler of the group has it too.  What it has not read no longer stays for it.
   Errors: TL404; TL409 while somebody works on it. */
create or replace function trunkline.broker_handler_delete(group_name text, handler text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_row(group_name);
  reader trunkline.broker_handler := trunkline._broker_handler_row(present, handler);
  resources text[] := array(select trunkline._broker_resource(present.group_id, handler, g) from generate_series(0, present.lanes - 1) g);
  busy text;
begin
  select coalesce(nullif(l.name, ''), l.process::text) into busy from trunkline.party p join trunkline.lease l using (process)
   where p.party = format('broker:%s:%s', present.group_id, handler) and l.expires > clock_timestamp() limit 1;
  if found then
    perform trunkline._raise('TL409', format('handler "%s" of group "%s" is in use by %s.', handler, group_name, busy), 'Stop its workers first.', jsonb_build_object('process', busy));
  end if;
  delete from trunkline.party p where p.party = format('broker:%s:%s', present.group_id, handler);
  delete from trunkline.owner o where o.resource = any (resources);
  delete from trunkline.cursor_key k where k.resource = any (resources);
  delete from trunkline.broker_handler h where h.group_id = present.group_id and h.handler = reader.handler;
  delete from trunkline.broker_subscription s
   where s.group_id = present.group_id and s.subscription = any (reader.subscriptions)
     and not exists (select from trunkline.broker_handler h where h.group_id = present.group_id and (h.subscriptions is null or s.subscription = any (h.subscriptions)));
end $$;
comment on function trunkline.broker_handler_delete(text, text) is 'Delete a handler that nobody will run again, with its positions and dead letters.';
select trunkline._access('broker_handler_delete(text, text)', 'writer');
