/* The last statement of every acknowledgement: the epoch is still the present one, and stays so until
   this transaction ends, because the row is held FOR SHARE and a hand-over waits for it. */
create or replace function trunkline._owner_check(resource text, epoch bigint)
returns void language plpgsql as $$
begin
  perform 1 from trunkline.owner o
    where o.resource = _owner_check.resource and o.epoch = _owner_check.epoch and o.process is not null
    for share;
  if not found then
    perform trunkline._raise('TL423', format('epoch %s of %s is over: another process owns it now.', coalesce(epoch::text, 'NULL'), coalesce('"' || resource || '"', 'NULL')),
      'Drop what you hold and join again.',
      jsonb_build_object('resource', resource, 'epoch', epoch,
        'present', (select o.epoch from trunkline.owner o where o.resource = _owner_check.resource)));
  end if;
end $$;
