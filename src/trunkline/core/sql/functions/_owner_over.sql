/* Refuse an epoch that is over.  Returns never.  TL423. */
create or replace function trunkline._owner_over(resource text, epoch bigint)
returns void language plpgsql stable as $$
begin
  perform trunkline._raise('TL423',
    format(case when epoch > trunkline._epoch_floor((select i.incarnation from trunkline._incarnation_present() i))
      then 'epoch %s of %s is over: another process owns it now.'
      else 'epoch %s of %s is over: it is none of this life of the server, which was restored or is a standby that took over.' end,
      coalesce(epoch::text, 'NULL'), coalesce('"' || resource || '"', 'NULL')),
    'Drop what you hold and join again.',
    jsonb_build_object('resource', resource, 'epoch', epoch,
      'present', (select o.epoch from trunkline.owner o where o.resource = _owner_over.resource)));
end $$;
