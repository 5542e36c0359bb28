/* Those of the keys whose row is there, but in another shard than the one asked for: what a query of the user's
   says of them belongs to that one.
   Errors: TL404, TL422 a key that is none. */
create or replace function trunkline._tube_moved(attachment int, keys text[], shards int[])
returns table (key text) language plpgsql stable as $$
declare
  attached trunkline.tube_table := trunkline._tube_attachment_present(attachment);
begin
  if attached.relation is null or attached.shard = all (shards) then
    return;
  end if;
  return query execute format('select k.key from unnest($1, $2) k (key, shard) where exists (select from %s r where %s and %s <> k.shard)',
    attached.relation, trunkline._tube_same_key(attached), coalesce(attached.shard::text, trunkline._tube_shard(attached))) using keys, shards;
exception when data_exception then
  perform trunkline._raise('TL422', format('the rows of %s cannot be read by these keys: %s.', attached.relation_name, sqlerrm));
end $$;
select trunkline._access('_tube_moved(int, text[], int[])', 'reader');
