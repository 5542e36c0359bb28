/* The role that stored text runs as: one that every author of the text may act as, and the role of the session too.  So it has no
   right that an author lacks.  The preferred role comes first, then that of the session, then the authors in their order.
   Errors: TL403 when an author is unknown or gone, or when no such role is among them; what names the text in the message. */
create or replace function trunkline._stored_role(authors name[], what text, preferred name default null)
returns name language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
declare
  caller name := trunkline._caller();
  author name;
  chosen name;
begin
  foreach author in array authors loop
    if author is null then
      raise exception using errcode = 'TL403', message = format('%s was configured before roles were recorded.', what),
        hint = 'Configure it again: it then runs as the role that does so.';
    elsif not exists (select from pg_roles r where r.rolname = author) then
      raise exception using errcode = 'TL403', message = format('%s was configured by role %s, which is gone.', what, quote_ident(author)),
        hint = 'Configure it again: it then runs as the role that does so.', detail = jsonb_build_object('role', author)::text;
    end if;
  end loop;
  select c.role into chosen
    from unnest(array_remove(array[preferred, caller], null) || authors) with ordinality c (role, place)
   where not exists (select from unnest(caller || authors) a (role) where not trunkline._may_act(a.role, c.role))
   order by c.place limit 1;
  if chosen is null then
    raise exception using errcode = 'TL403', message = format('%s runs as %s, and %s may not act as it.', what,
        (select string_agg(distinct quote_ident(a.role), ' and ') from unnest(authors) a (role)), quote_ident(caller)),
      hint = format('Have a DBA run: %s. Or configure it again as one role.',
        (select string_agg(distinct format('grant %I to %I', a.role, caller), '; ') from unnest(authors) a (role) where not trunkline._may_act(caller, a.role))), detail = jsonb_build_object('role', caller, 'authors', authors)::text;
  end if;
  return chosen;
end $$;
select trunkline._access('_stored_role(name[], text, name)', 'reader');
