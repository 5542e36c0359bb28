/* The claims in flight of a cursor, oldest range first. */
create or replace function trunkline._log_claims(state jsonb)
returns table (claim bigint, first_offset bigint, last_offset bigint, deadline timestamptz, attempts int, process uuid, reason text)
language sql stable as $$
  select c.* from jsonb_to_recordset(state) c (claim bigint, first_offset bigint, last_offset bigint, deadline timestamptz, attempts int, process uuid, reason text)
   order by c.first_offset;
$$;
