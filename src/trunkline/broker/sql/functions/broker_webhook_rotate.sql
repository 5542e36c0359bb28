/* Sign with another secret.  What was signed with before signs along for the overlap, so that receivers may change
   over meanwhile.  Also gives a secret to a webhook that has none.  Errors: TL404, TL422. */
create or replace function trunkline.broker_webhook_rotate(webhook bigint, secret text, overlap interval default '1 day')
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.broker_webhook := trunkline._webhook_for(webhook);
begin
  if secret is null or coalesce(overlap, '-1') not between interval '0' and interval '1000 years' then
    raise exception using errcode = 'TL422', message = format('expected a secret and an overlap of at most 1000 years that is not negative, got %s secret and an overlap of %s.',
      case when secret is null then 'no' else 'a' end, coalesce(overlap::text, 'NULL'));
  end if;
  perform trunkline._webhook_secret_put(present.webhook, secret, overlap);
  perform pg_notify('trunkline', 'broker:webhooks');
end $$;
comment on function trunkline.broker_webhook_rotate(bigint, text, interval) is 'Sign with another secret; the one before signs along for a while.';
select trunkline._access('broker_webhook_rotate(bigint, text, interval)', 'writer');
