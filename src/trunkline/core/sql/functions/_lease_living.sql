/* Does this process hold a lease at this moment? */
create or replace function trunkline._lease_living(process uuid, now_ timestamptz default clock_timestamp())
returns boolean language sql stable as $$
  select exists (select from trunkline.lease l where l.process = $1 and l.expires > $2);
$$;
