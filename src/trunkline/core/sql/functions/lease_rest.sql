/* How long the lease of a process lasts if it is not renewed; NULL for one without a lease. */
create or replace function trunkline.lease_rest(process uuid)
returns interval language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select l.expires - clock_timestamp() from trunkline.lease l where l.process = $1;
$$;
comment on function trunkline.lease_rest(uuid) is 'How long the lease of a process lasts if it is not renewed.';
select trunkline._access('lease_rest(uuid)', 'reader');
