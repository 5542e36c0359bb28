/* Delete a group with its subscriptions, handlers, positions and dead letters.  TL404; TL409 while somebody works in it. */
create or replace function trunkline.broker_group_delete(group_name text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_group := trunkline._broker_group_for(group_name, 'manage');
  busy text;
begin
  select coalesce(nullif(l.name, ''), l.process::text) into busy from trunkline.party p join trunkline.lease l using (process)
   where p.party like format('broker:%s:%%', present.group_id) and l.expires > clock_timestamp() limit 1;
  if found then
    raise exception using errcode = 'TL409', message = format('group "%s" is in use by %s.', group_name, busy),
      hint = 'Stop its workers first.', detail = jsonb_build_object('process', busy)::text;
  end if;
  perform trunkline._broker_group_end(present.group_id);
end $$;
comment on function trunkline.broker_group_delete(text) is 'Delete a group with all that belongs to it.';
select trunkline._access('broker_group_delete(text)', 'writer');
