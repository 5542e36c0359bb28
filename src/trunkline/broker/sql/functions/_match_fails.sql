/* Does a condition fail on some of the events at hand, for some of its subscriptions or for one alone?  NULL when not,
   otherwise the error. */
create or replace function trunkline._match_fails(condition trunkline.broker_condition, alone trunkline.broker_subscription, places int4range, among int8range default '(,)')
returns text language plpgsql as $$
begin
  perform count(*) from trunkline._match_run(condition.kind, trunkline._match_statement(condition, alone, places, among)) r;
  return null;
exception when others then
  return format('%s (%s)', sqlerrm, sqlstate);
end $$;
