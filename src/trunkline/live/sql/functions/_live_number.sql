/* The number of the next live subscription. */
create or replace function trunkline._live_number()
returns bigint language sql security definer set search_path = pg_catalog, pg_temp as $$
  select nextval(pg_get_serial_sequence('trunkline.live_subscription', 'subscription'));
$$;
select trunkline._access('_live_number()', 'reader');
