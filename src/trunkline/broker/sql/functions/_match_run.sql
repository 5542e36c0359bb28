/* Run the query of one condition: what a user wrote as the role that may do nothing else, what we compiled ourselves as
   we are.  batch is its $1.  STABLE: it sees what the statement sees that calls it. */
create or replace function trunkline._match_run(kind text, statement text, batch trunkline.broker_match_event[] default null)
returns table (place int, subscription bigint) language plpgsql stable
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  if kind = 'sql' then
    return query select r.place, r.subscription from trunkline._condition_run(statement, batch) r;
  else
    return query execute statement using batch;
  end if;
end $$;
