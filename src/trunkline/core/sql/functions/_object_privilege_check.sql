/* TL422 unless a privilege is one that objects of this kind have. */
create or replace function trunkline._object_privilege_check(kind text, privilege text)
returns void language plpgsql stable as $$
declare
  known text[] := (select k.privileges from trunkline.object_kind k where k.kind = _object_privilege_check.kind);
begin
  if privilege is null or privilege <> all (known) then
    perform trunkline._raise('TL422', format('a %s has the privileges %s, got %s.', kind, array_to_string(known, ', '), coalesce(quote_literal(privilege), 'NULL')),
      '', jsonb_build_object('kind', kind, 'privileges', known));
  end if;
end $$;
