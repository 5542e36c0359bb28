/* Until the transaction ends nobody else grants functions of the schema or writes all of them anew; shared, for whoever
   replaces or drops some of his own.  Two who change one routine at the same time would meet an internal error of Postgres. */
create or replace function trunkline._routines_lock(shared boolean default false)
returns void language plpgsql as $$
declare
  key bigint := hashtextextended('trunkline routines', 0);
begin
  perform trunkline._lock_briefly();
  if shared then
    perform pg_advisory_xact_lock_shared(key);
  else
    perform pg_advisory_xact_lock(key);
  end if;
end $$;
