/* Sign with this secret from now on; the others sign along until the end of the overlap, or of their own.  TL422. */
create or replace function trunkline._webhook_secret_put(webhook bigint, secret text, overlap interval)
returns void language plpgsql as $$
declare
  fault text := trunkline._webhook_secret_fault(secret);
begin
  if fault is not null then
    raise exception using errcode = 'TL422', message = fault, hint = 'Make one of random bytes: encode(...) or openssl rand -base64 32.';
  end if;
  delete from trunkline.broker_webhook_secret s where s.webhook = _webhook_secret_put.webhook and s.valid_until <= clock_timestamp();
  update trunkline.broker_webhook_secret s set valid_until = clock_timestamp() + overlap
   where s.webhook = _webhook_secret_put.webhook and s.secret <> _webhook_secret_put.secret and s.valid_until is null;
  insert into trunkline.broker_webhook_secret as s (webhook, secret) values (_webhook_secret_put.webhook, _webhook_secret_put.secret)
  on conflict on constraint broker_webhook_secret_pkey do update set valid_until = null, created_at = clock_timestamp();
end $$;
