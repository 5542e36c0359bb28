/* The rows behind keys of an attached table as JSON; NULL for a key whose row is gone, does not meet the conditions or,
   when shards are given too, is not in the shard asked for: after it moved, the document in the shard of before has
   to go.  In the order asked.  Reads with your rights; conditions and shards of others run as the roles that set them,
   see _tube_reader().  Numbers and bytes are written whole and alike whatever your settings
   are.  Read tube_version() before it: that is the version to write downstream.  Errors: TL403 you may not act as those roles, TL404, TL422 a
   key that is none, a condition that fails. */
create or replace function trunkline.tube_enrich(attachment int, keys text[], shards int[] default null)
returns table (key text, document jsonb) language plpgsql
set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
  reading record := trunkline._tube_reading(attachment);
  attached trunkline.tube_table := reading.attached;
  reader name := trunkline._tube_reader(attached, reading.authors, reading.owner);
begin
  if reader is null then
    return query execute format('select k.key, %s from unnest($1, $2) with ordinality k (key, shard, place) order by k.place',
      trunkline._tube_document(attached, shards is not null)) using keys, shards;
  else
    return query select e.key, e.document::jsonb from trunkline.tube_enrich_text(attachment, keys, shards) e;
  end if;
exception when data_exception then
  raise exception using errcode = 'TL422', message = format('the rows of %s cannot be read by these keys: %s.', attached.relation_name, sqlerrm);
end $$;
comment on function trunkline.tube_enrich(int, text[], int[]) is 'The rows behind keys of an attached table as JSON; NULL for what is gone.';
select trunkline._access('tube_enrich(int, text[], int[])', 'reader');
