/* Processes: until when their lease lasts, whether they live, and how much they own. */
create or replace function trunkline.lease_list()
returns table (process uuid, name text, started_at timestamptz, expires timestamptz, living boolean, owns bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select l.process, l.name, l.started_at, l.expires, l.expires > clock_timestamp(),
         (select count(*) from trunkline.owner o where o.process = l.process)
    from trunkline.lease l order by l.started_at;
$$;
comment on function trunkline.lease_list() is 'Processes, whether they live and how much they own.';
select trunkline._access('lease_list()', 'reader');
