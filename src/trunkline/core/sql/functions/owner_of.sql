/* Who owns a resource: the process, its name, since when, and whether its lease lasts.  No row when nobody does. */
create or replace function trunkline.owner_of(resource text)
returns table (process uuid, name text, since timestamptz, living boolean)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select o.process, l.name, o.since, coalesce(l.expires > clock_timestamp(), false)
    from trunkline.owner o left join trunkline.lease l using (process) where o.resource = $1 and o.process is not null;
$$;
comment on function trunkline.owner_of(text) is 'Who owns a resource, and whether that process lives.';
select trunkline._access('owner_of(text)', 'reader');
