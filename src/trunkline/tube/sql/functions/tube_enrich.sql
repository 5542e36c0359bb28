/* The rows behind keys of an attached table as JSON; NULL for a key whose row is gone, does not meet the conditions or,
   when shards are given too, is not in the shard asked for: after it moved, the document in the shard of before has
   to go.  In the order asked.  Runs with your rights.  Read tube_version() before it: that is the version to write
   downstream.  Errors: TL404, TL422 a key that is none, a condition that fails. */
create or replace function trunkline.tube_enrich(attachment int, keys text[], shards int[] default null)
returns table (key text, document jsonb) language plpgsql stable as $$
declare
  attached trunkline.tube_table := trunkline._tube_attachment_present(attachment);
  types text[];
  this_row text;
begin
  if attached.relation is null then
    return query select k, null::jsonb from unnest(keys) k;  -- the table is gone, and its rows with it
    return;
  end if;
  types := trunkline._tube_key_types(attached.relation, attached.key_columns);
  this_row := case when cardinality(types) = 1
    then format('r.%I = k.key::%s', attached.key_columns[1], types[1])
    else (select string_agg(format('r.%I = (k.key::jsonb ->> %s)::%s', c, i - 1, types[i]), ' and ')
            from unnest(attached.key_columns) with ordinality u (c, i)) end
    || coalesce(' and ' || trunkline._tube_conditions(attached), '')
    || case when shards is not null then format(' and k.shard = %s', case when attached.shard is null then trunkline._tube_shard(attached) else attached.shard::text end) else '' end;
  return query execute format('select k.key, (select to_jsonb(r) from %s r where %s limit 1) from unnest($1, $2) with ordinality k (key, shard, place) order by k.place',
    attached.relation, this_row) using keys, shards;
exception when data_exception then
  perform trunkline._raise('TL422', format('the rows of %s cannot be read by these keys: %s.', attached.relation_name, sqlerrm));
end $$;
comment on function trunkline.tube_enrich(int, text[], int[]) is 'The rows behind keys of an attached table as JSON; NULL for what is gone.';
select trunkline._access('tube_enrich(int, text[], int[])', 'reader');
