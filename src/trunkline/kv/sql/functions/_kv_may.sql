/* Refuse what the role that the session acts as may not do with the keys of a namespace: TL403.  privilege is append or read. */
create or replace function trunkline._kv_may(namespace text, privilege text)
returns void language plpgsql stable as $$
begin
  if exists (select from trunkline.kv_guarded g where g.namespace = _kv_may.namespace and case privilege when 'append' then g.append else g.read end) then
    perform trunkline._check_may('namespace:' || namespace, privilege);
  end if;
end $$;
