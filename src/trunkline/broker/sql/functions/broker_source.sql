/* The source of events as CloudEvents: the setting broker.source, or else a URN made of the identifiers of server and database. */
create or replace function trunkline.broker_source()
returns text language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select coalesce(nullif(trunkline._setting('broker.source'), ''),
                  format('urn:trunkline:%s:%s', trunkline._system_identifier(), trunkline._database_oid()));
$$;
comment on function trunkline.broker_source() is 'The source of events as CloudEvents.';
select trunkline._access('broker_source()', 'reader');
