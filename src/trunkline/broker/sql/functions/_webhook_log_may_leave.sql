/* A slot of the log of webhooks may leave when all of it is older than broker.webhook_log. */
create or replace function trunkline._webhook_log_may_leave(ring text, slot int)
returns boolean language plpgsql as $$
declare
  newest timestamptz;
begin
  execute format('select max(l.at) from trunkline.%I l', ring || '_' || slot) into newest;
  return coalesce(newest < clock_timestamp() - trunkline._setting('broker.webhook_log')::interval, true);
end $$;
