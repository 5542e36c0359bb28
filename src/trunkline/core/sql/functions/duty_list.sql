/* What maintain() does, when it last did it, and what went wrong. */
create or replace function trunkline.duty_list()
returns table (duty text, ran_at timestamptz, failed_at timestamptz, error text)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select d.duty, d.ran_at, d.failed_at, d.error from trunkline.duty d order by d.rank, d.duty;
$$;
comment on function trunkline.duty_list() is 'What maintain() does, when it last did it, and what went wrong.';
select trunkline._access('duty_list()', 'reader');
