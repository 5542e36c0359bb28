/* As tube_enrich(), with the document as text: clients that pass it on need not parse it. */
create or replace function trunkline.tube_enrich_text(attachment int, keys text[], shards int[] default null)
returns table (key text, document text) language sql stable as $$
  select e.key, e.document::text from trunkline.tube_enrich(attachment, keys, shards) e;
$$;
comment on function trunkline.tube_enrich_text(int, text[], int[]) is 'The rows behind keys of an attached table as JSON text.';
select trunkline._access('tube_enrich_text(int, text[], int[])', 'reader');
