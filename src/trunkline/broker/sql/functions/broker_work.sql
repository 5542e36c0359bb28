/* Do what waits, in small transactions: call trunkline.broker_work().  Publishes what is due, numbers what was committed,
   matches it and forwards it into the log.  Safe from psql, pg_cron and any number of services at once.
   With lasting it goes on for so long, looking every broker.schedule_every, and ends early when pg_cron is no longer chosen,
   both seen within a second: that is the job that pg_cron starts every minute.  Not inside a transaction block.
   A condition that is slow is not ended here: give the session a statement_timeout, or run the services. */
create or replace procedure trunkline.broker_work(lasting interval default '0')
language plpgsql as $$
declare
  until timestamptz := clock_timestamp() + least(lasting, interval '1000 years');
  looked timestamptz;
  next_one timestamptz;
  done int;
  forwarded text;
begin
  loop
    loop
      commit;
      set transaction isolation level read committed;
      done := trunkline.broker_release() + trunkline.broker_tick();
      commit;
      set transaction isolation level read committed;
      done := done + trunkline.broker_match() + trunkline.broker_catch_up();
      foreach forwarded in array array(select f.topic from trunkline.broker_forwardable() f) loop
        commit;
        set transaction isolation level read committed;
        done := done + trunkline._broker_forward_patiently(forwarded);
      end loop;
      exit when done = 0;
    end loop;
    looked := clock_timestamp();
    loop
      commit;
      next_one := looked + trunkline.config_get('broker.schedule_every')::interval;
      exit when clock_timestamp() >= next_one or next_one >= until or trunkline.config_get('broker.schedule') <> 'pg_cron';
      perform pg_sleep_until(least(next_one, clock_timestamp() + interval '1 second'));
    end loop;
    exit when next_one >= until or trunkline.config_get('broker.schedule') <> 'pg_cron';
  end loop;
end $$;
comment on procedure trunkline.broker_work(interval) is 'Publish what is due, number, match and forward events, in small transactions.';
select trunkline._access('broker_work(interval)', 'admin');
