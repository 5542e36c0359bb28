/* An error as broker_retry keeps it, not longer than somebody would read. */
create or replace function trunkline._broker_error(error text)
returns jsonb language sql volatile as $$
  select jsonb_build_object('error', left(error, 8000), 'at', clock_timestamp());
$$;
