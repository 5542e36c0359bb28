/* TL422 unless a privilege is one that objects of this kind have. */
create or replace function trunkline._object_privilege_check(kind text, privilege text)
returns void language plpgsql stable as $$
declare
  known text[] := (select k.privileges from trunkline.object_kind k where k.kind = _object_privilege_check.kind);
begin
  if privilege is null or privilege <> all (known) then
    raise exception using errcode = 'TL422', message = format('a %s has the privileges %s, got %s.', kind, array_to_string(known, ', '), coalesce(quote_literal(privilege), 'NULL')),
      detail = jsonb_build_object('kind', kind, 'privileges', known)::text;
  end if;
end $$;
