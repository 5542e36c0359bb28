/* Do all pending upkeep in small transactions: call trunkline.maintain().  Safe from psql, pg_cron and any
   number of services at once.  A duty that fails is noted in `duty` and does not stop the others.
   Not inside a transaction block: it commits between steps so that no lock is held long. */
create or replace procedure trunkline.maintain()
language plpgsql as $$
declare
  work text;
  more boolean;
begin
  foreach work in array array(select d.duty from trunkline.duty_list() d) loop
    loop
      commit;
      set transaction isolation level read committed;  -- whatever the default of the database is
      more := trunkline._duty_run(work);
      exit when not more;
    end loop;
  end loop;
end $$;
comment on procedure trunkline.maintain() is 'Do all pending upkeep in small transactions; safe to call at any time, by any number.';
select trunkline._access('maintain()', 'admin');
