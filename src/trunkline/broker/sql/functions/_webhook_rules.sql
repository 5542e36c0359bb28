/* The settings that the sender obeys. */
create or replace function trunkline._webhook_rules()
returns table (private boolean, gzip_bytes int, body_bytes int, failures int, source text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline._setting('broker.webhook_private')::boolean, trunkline._setting('broker.webhook_gzip_bytes')::int,
         trunkline._setting('broker.webhook_body_bytes')::int, trunkline._setting('broker.webhook_failures')::int,
         coalesce(nullif(trunkline._setting('broker.source'), ''),
                  format('urn:trunkline:%s:%s', trunkline._system_identifier(), trunkline._database_oid()));
$$;
select trunkline._access('_webhook_rules()', 'admin');
