/* A live subscription is not changed: what it says was checked for who made it.  A trigger. */
create or replace function trunkline._live_subscription_keep()
returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  raise exception using errcode = 'TL409', message = 'a live subscription cannot be changed.', hint = 'Subscribe again.';
  return null;
end $$;
