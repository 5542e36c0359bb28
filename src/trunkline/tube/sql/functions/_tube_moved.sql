/* Those of the keys whose row is there, but in another shard than the one asked for: what a query of the user's
   says of them belongs to that one.
   Errors: TL403, TL404, TL422 a key that is none. */
create or replace function trunkline._tube_moved(attachment int, keys text[], shards int[])
returns table (key text) language plpgsql as $$
declare
  reading record := trunkline._tube_reading(attachment);
  attached trunkline.tube_table := reading.attached;
  reader name := trunkline._tube_reader(attached, reading.authors, reading.owner);
  moved text;
begin
  if attached.relation is null or attached.shard = all (shards) then
    return;
  end if;
  moved := format('select k.key from unnest($1, $2) k (key, shard) where exists (select from %s r where %s and %s <> k.shard)',
    trunkline._hook_name(attached.relation), trunkline._tube_same_key(attached), coalesce(attached.shard::text, trunkline._tube_shard(attached)));
  if reader is null then
    return query execute moved using keys, shards;
  else
    return query select unnest(d.texts)
      from trunkline._run_as(reader, format('select array_agg(m.key), null::text[], null::int[], count(*) from (%s) m', moved), keys, shards) d;
  end if;
exception when data_exception then
  raise exception using errcode = 'TL422', message = format('the rows of %s cannot be read by these keys: %s.', attached.relation_name, sqlerrm);
end $$;
select trunkline._access('_tube_moved(int, text[], int[])', 'reader');
