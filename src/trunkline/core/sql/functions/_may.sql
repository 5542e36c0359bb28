/* Whether a role has one of some privileges on an object: it owns the object, was granted one of them or "manage", or inherits from a role of which this
   is true.  trunkline_admin and the owner of the schema have every privilege.  Roles that no longer exist give nothing. */
create or replace function trunkline._may(object text, privileges text[], role name)
returns boolean language plpgsql stable as $$
begin
  return exists (
    select from pg_roles r
     where r.rolname = any (array(
             select 'trunkline_admin'
             union all select pg_get_userbyid(n.nspowner) from pg_namespace n where n.nspname = 'trunkline'
             union all select o.owner from trunkline.object o where o.object = _may.object
             union all select g.role from trunkline.object_grant g where g.object = _may.object and g.privilege = any (_may.privileges || 'manage'::text)))
       and pg_has_role(_may.role, r.oid, 'usage'));
end $$;
