/* The row of a webhook that the role that the session acts as manages, locked.  Errors: TL403, TL404. */
create or replace function trunkline._webhook_for(webhook bigint)
returns trunkline.broker_webhook language plpgsql as $$
declare
  present trunkline.broker_webhook := trunkline._webhook_row(webhook);
begin
  perform trunkline._check_may('webhook:' || webhook, 'manage');
  return present;
end $$;
