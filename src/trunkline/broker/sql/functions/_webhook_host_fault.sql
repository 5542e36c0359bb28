/* Why webhooks may not be sent to the host of a URL, NULL when they may.  A name may still resolve to an address that is refused when it is sent to. */
create or replace function trunkline._webhook_host_fault(url text)
returns text language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  host text := trunkline._webhook_host(url);
  allowed text[] := trunkline._setting('broker.webhook_hosts')::text[];
  literal inet;
begin
  if allowed <> '{}' and not exists (select from unnest(allowed) a where lower(a) in ('*', host) or lower(a) like '*.%' and right(host, length(a) - 1) = lower(substr(a, 2))) then
    return format('webhooks may not be sent to %s: the setting broker.webhook_hosts does not have it.', host);
  end if;
  begin
    literal := trunkline._webhook_literal(host);
  exception when invalid_text_representation then
    return format('%s is neither the name of a host nor an address.', host);
  end;
  if host = 'localhost' or host like '%.localhost' then
    literal := '127.0.0.1';
  end if;
  if literal is not null and not trunkline._setting('broker.webhook_private')::boolean and not trunkline._webhook_public(literal)
        and not literal <<= any (trunkline._setting('broker.webhook_networks')::inet[]) then
    return format('webhooks may not be sent to %s: %s is not a public address. See the settings broker.webhook_networks and broker.webhook_private.', host, host(literal));
  end if;
  return null;
end $$;
