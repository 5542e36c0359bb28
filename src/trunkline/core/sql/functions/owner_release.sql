/* Give a resource back.  Returns whether it was still held with that epoch. */
create or replace function trunkline.owner_release(resource text, epoch bigint)
returns boolean language sql security definer set search_path = pg_catalog, pg_temp as $$
  with released as (
    update trunkline.owner o set process = null, since = clock_timestamp()
     where o.resource = $1 and o.epoch = $2 and o.process is not null returning 1)
  select exists (select from released);
$$;
comment on function trunkline.owner_release(text, bigint) is 'Give a resource back; false if the epoch is not the present one.';
select trunkline._access('owner_release(text, bigint)', 'writer');
