/* Refuse what the role that the session acts as may not do: TL403 with the call that grants it.  One of the privileges is enough. */
create or replace function trunkline._check_may(object text, variadic privileges text[])
returns void language plpgsql stable as $$
declare
  caller name := trunkline._caller();
  holder name;
begin
  if not trunkline._may(object, privileges, caller) then
    holder := (select o.owner from trunkline.object o where o.object = _check_may.object);
    raise exception using errcode = 'TL403', message = format('role %s needs the privilege "%s" on %s.', quote_ident(caller), privileges[1], object),
      hint = format('%s can grant it: select trunkline.grant_on(%L, %L, %L)',
        coalesce('Its owner ' || quote_ident(holder) || ' or an admin', 'An admin'), object, privileges[1], caller), detail = jsonb_build_object('object', object, 'privilege', privileges[1], 'role', caller)::text;
  end if;
end $$;
