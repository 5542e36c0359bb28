/* Grant the functions of partitions' own to those who may call log_append_batch(). */
create or replace function trunkline._grant_log_appends()
returns void language sql set search_path = pg_catalog, pg_temp as $$
  select trunkline._log_append_grant(a.name) from trunkline._log_appends() a;
$$;
