/* How long a lease lasts: renew it every third of that. */
create or replace function trunkline.lease_ttl()
returns interval language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._setting('lease.ttl')::interval;
$$;
comment on function trunkline.lease_ttl() is 'How long a lease lasts.';
select trunkline._access('lease_ttl()', 'reader');
