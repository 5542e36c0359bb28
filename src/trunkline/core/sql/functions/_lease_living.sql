/* Does this process hold a lease at this moment? */
create or replace function trunkline._lease_living(process uuid, now_ timestamptz default clock_timestamp())
returns boolean language plpgsql stable as $$
begin
  return exists (select from trunkline.lease l where l.process = _lease_living.process and l.expires > now_);
end $$;
