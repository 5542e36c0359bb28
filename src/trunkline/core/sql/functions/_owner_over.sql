/* Refuse an epoch that is over.  Returns never.  TL423. */
create or replace function trunkline._owner_over(resource text, epoch bigint)
returns void language plpgsql stable as $$
declare
  present trunkline.owner;
begin
  select o.* into present from trunkline.owner o where o.resource = _owner_over.resource;
  raise exception using errcode = 'TL423', message = format('epoch %s of %s is over: %s.', coalesce(epoch::text, 'NULL'), coalesce('"' || resource || '"', 'NULL'),
      case when coalesce(epoch <= trunkline._epoch_floor((select i.incarnation from trunkline._incarnation_present() i)), epoch is not null)
           then 'it is none of this life of the server, which was restored or is a standby that took over'
           when present.process is null then 'nobody owns it now'
           else format('epoch %s owns it now', present.epoch) end),
    hint = 'Drop what you hold and join again.', detail = jsonb_build_object('resource', resource, 'epoch', epoch, 'present', present.epoch)::text;
end $$;
