/* Try parked keys again: all of a tube, or some.  They are touched, so they are delivered with the state of now.
   Returns how many. */
create or replace function trunkline.tube_unpark(tube text, keys text[] default null)
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.tube := trunkline._tube_row(tube);
  freed record;
  total int := 0;
begin
  perform trunkline._tube_may(present.tube, 'consume');
  for freed in
    with gone as (
      delete from trunkline.tube_parked p where p.tube_id = present.tube_id and (tube_unpark.keys is null or p.key = any (tube_unpark.keys))
      returning p.attachment, p.shard, p.key)
    select g.attachment, g.shard, array_agg(g.key order by g.key) as keys from gone g group by 1, 2
  loop
    perform trunkline._tube_put_entries(present.tube_id, nullif(freed.attachment, 0), freed.shard, null, freed.keys, 'T', null, 0);
    total := total + cardinality(freed.keys);
  end loop;
  return total;
end $$;
comment on function trunkline.tube_unpark(text, text[]) is 'Try parked keys again.';
select trunkline._access('tube_unpark(text, text[])', 'writer');
