/* Forget an event that was set aside because it is too large for the log.  Errors: TL404. */
create or replace function trunkline.broker_unforwarded_discard(event_id bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from trunkline.broker_forward_aside a where a.event_id = broker_unforwarded_discard.event_id;
  if not found then
    raise exception using errcode = 'TL404', message = format('event %s is not set aside.', coalesce(event_id::text, 'NULL')),
      hint = 'broker_unforwarded() lists those that are.';
  end if;
end $$;
comment on function trunkline.broker_unforwarded_discard(bigint) is 'Forget an event that is too large for the log.';
select trunkline._access('broker_unforwarded_discard(bigint)', 'writer');
