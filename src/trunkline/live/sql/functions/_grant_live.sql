/* Grant readers, and the roles that live_allow() named, what subscribing needs: called by roles_grant(). */
create or replace function trunkline._grant_live()
returns void language sql set search_path = pg_catalog, pg_temp as $$
  select trunkline._live_grant(r.rolname) from pg_roles r
   where r.rolname in ('trunkline_reader', 'trunkline_writer', 'trunkline_admin') or exists (select from trunkline.live_role l where l.role = r.rolname);
$$;
