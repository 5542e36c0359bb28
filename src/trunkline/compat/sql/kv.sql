/* The statements of pg_global_kv over the keys of trunkline: namespace, policies, five functions. */
create or replace function kv.get(namespace text, key text)
returns jsonb language sql stable set search_path = pg_catalog, pg_temp as $$
  select trunkline.kv_get($1, $2);
$$;
comment on function kv.get(text, text) is 'The value of a key: trunkline.kv_get().';

/* A value that is NULL deletes the key.  The policy NO_EXPIRE and NULL keep it for ever. */
create or replace function kv.put(namespace text, key text, value jsonb, expiration_policy text default null)
returns text language sql set search_path = pg_catalog, pg_temp as $$
  select case when $3 is null then trunkline.kv_delete($1, $2)
              else trunkline.kv_put($1, $2, $3, policy => nullif($4, 'NO_EXPIRE')) end;
$$;
comment on function kv.put(text, text, jsonb, text) is
  'Put a value, or delete the key where it is NULL: trunkline.kv_put().';

create or replace function kv.delete(namespace text, key text)
returns text language sql set search_path = pg_catalog, pg_temp as $$
  select trunkline.kv_delete($1, $2);
$$;
comment on function kv.delete(text, text) is 'Delete a key: trunkline.kv_delete().';

create or replace function kv.patch_numeric(
  namespace text, key text, numeric_offsets jsonb, expiration_policy text default null)
returns text language sql set search_path = pg_catalog, pg_temp as $$
  select trunkline.kv_patch_numeric($1, $2, $3, policy => nullif($4, 'NO_EXPIRE'));
$$;
comment on function kv.patch_numeric(text, text, jsonb, text) is
  'Add numbers to fields of a key: trunkline.kv_patch_numeric().';

create or replace function kv._policies()
returns table (namespace text, policy text, time_length interval)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select p.namespace, p.policy, p.keep from trunkline.kv_policies() p where p.policy is not null;
$$;

create or replace view kv.expiry_to_interval with (security_invoker = true) as
  select p.namespace, p.policy, p.time_length from kv._policies() p;
comment on view kv.expiry_to_interval is
  'Policies: trunkline.kv_policies(). An INSERT calls kv_namespace_put() and kv_policy_put().';

create or replace function kv._policy_write()
returns trigger language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if tg_op = 'DELETE' then
    perform trunkline.kv_policy_drop(old.namespace, old.policy);
    return old;
  end if;
  perform trunkline.kv_namespace_put(new.namespace);
  perform trunkline.kv_policy_put(new.namespace, new.policy, new.time_length);
  return new;
end $$;
create or replace trigger policy_write instead of insert or update or delete on kv.expiry_to_interval
  for each row execute function kv._policy_write();

create or replace function kv._topology()
returns table (instance text, zone text, shard text, scope text, dsn text)
language sql stable set search_path = pg_catalog, pg_temp as $$
  select * from trunkline.kv_local_replication_topology();
$$;
create or replace view kv.local_replication_topology with (security_invoker = true) as
  select t.instance, t.zone, t.shard, t.scope, t.dsn from kv._topology() t;
comment on view kv.local_replication_topology is
  'From whom this instance pulls: trunkline.kv_local_replication_topology().';

grant select, insert, update, delete on kv.expiry_to_interval to public;
grant select on kv.local_replication_topology to public;

insert into kv.expiry_to_interval (namespace, policy, time_length)
select 'DEFAULT', p.policy, p.time_length
  from (values ('EXPIRY_1', interval '2 days'), ('EXPIRY_2', '10 days'), ('EXPIRY_3', '1 month'),
               ('EXPIRY_4', '3 months'), ('EXPIRY_5', '7 months'), ('EXPIRY_6', '13 months'),
               ('EXPIRY_7', '25 months')) p (policy, time_length)
 where not exists (select from kv.expiry_to_interval e where e.namespace = 'DEFAULT');
