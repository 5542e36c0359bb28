/* Note that keys changed here; via is the origin that the change came from. */
create or replace function trunkline._kv_note(namespace text, keys text[], via bigint)
returns void language plpgsql as $$
begin
  if current_setting('synchronous_commit') = 'off' then perform trunkline._durably(); end if;
  insert into trunkline.kv_change (slot, xid_space, xid, seq, namespace, key, via)
  select (select r.current from trunkline.ring r where r.ring = 'kv_change'), trunkline._xid_space(), pg_current_xact_id(), nextval('trunkline.kv_seq'),
         _kv_note.namespace, k.key, _kv_note.via
    from unnest(keys) k (key);
  if namespace = 'parade' then
    perform trunkline._kv_parted(keys);
    perform trunkline._kv_namespaces_follow(keys);
  end if;
end $$;
