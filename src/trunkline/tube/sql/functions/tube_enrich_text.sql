/* As tube_enrich(), with the document as text: clients that pass it on need not parse it. */
create or replace function trunkline.tube_enrich_text(attachment int, keys text[], shards int[] default null)
returns table (key text, document text) language plpgsql
set bytea_output = 'hex' set extra_float_digits = 1 as $$
declare
  reading record := trunkline._tube_reading(attachment);
  attached trunkline.tube_table := reading.attached;
  reader name := trunkline._tube_reader(attached, reading.authors, reading.owner);
  documents text := format('select k.key, %s::text as document, k.place from unnest($1, $2) with ordinality k (key, shard, place)',
    trunkline._tube_document(attached, shards is not null));
begin
  if reader is null then
    return query execute format('select d.key, d.document from (%s) d order by d.place', documents) using keys, shards;
  else
    return query select u.key, u.document
      from trunkline._run_as(reader, format('select array_agg(d.key order by d.place), array_agg(d.document order by d.place), null::int[], count(*) from (%s) d',
             documents), keys, shards) d,
           unnest(d.texts, d.others) u (key, document);
  end if;
exception when data_exception then
  raise exception using errcode = 'TL422', message = format('the rows of %s cannot be read by these keys: %s.', attached.relation_name, sqlerrm);
end $$;
comment on function trunkline.tube_enrich_text(int, text[], int[]) is 'The rows behind keys of an attached table as JSON text.';
select trunkline._access('tube_enrich_text(int, text[], int[])', 'reader');
