/* The settings that the sender obeys. */
create or replace function trunkline._webhook_rules()
returns table (private boolean, hosts text[], networks text[], gzip_bytes int, body_bytes int, failures int, source text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._setting('broker.webhook_private')::boolean, trunkline._setting('broker.webhook_hosts')::text[],
         trunkline._setting('broker.webhook_networks')::text[], trunkline._setting('broker.webhook_gzip_bytes')::int,
         trunkline._setting('broker.webhook_body_bytes')::int, trunkline._setting('broker.webhook_failures')::int,
         trunkline.broker_source();
$$;
select trunkline._access('_webhook_rules()', 'admin');
