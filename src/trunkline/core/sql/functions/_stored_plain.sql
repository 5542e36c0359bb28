/* Whether text of these authors may run in the session as it is: the session is in the wanted role, and whatever the text might return to
   with RESET ROLE is a role that each author may act as anyway. */
create or replace function trunkline._stored_plain(role name, authors name[])
returns boolean language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select role = trunkline._caller()
     and not exists (select from unnest(authors) a (role) where not trunkline._may_act(a.role, session_user));
$$;
select trunkline._access('_stored_plain(name, name[])', 'reader');
