/* Namespaces that are here already stay open: the owner of the schema owns them. */
select trunkline._object_kind('namespace', '{append,read}', '{"append": "trunkline_writer", "read": "trunkline_reader"}', '_kv_namespace_shared');
insert into trunkline.object (object, kind, name, owner)
select 'namespace:' || p.namespace, 'namespace', p.namespace, (select pg_get_userbyid(n.nspowner) from pg_namespace n where n.nspname = 'trunkline')
  from (select distinct p.namespace from trunkline.kv_policies() p) p;
insert into trunkline.object_grant (object, privilege, role, granted_by)
select o.object, g.key, g.value, o.owner from trunkline.object o join trunkline.object_kind k using (kind) cross join jsonb_each_text(k.open_to) g
 where o.kind = 'namespace';
