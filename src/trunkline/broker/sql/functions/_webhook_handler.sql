/* The handler that a webhook is in its group. */
create or replace function trunkline._webhook_handler(webhook bigint)
returns text language sql immutable as $$
  select 'webhook:' || webhook;
$$;
