/* The key columns of an attachment; NULL when one of them is not there any more. */
create or replace function trunkline._tube_keys_there(attached trunkline.tube_table)
returns text[] language sql stable as $$
  select attached.key_columns where not exists (
    select from unnest(attached.key_columns) k (name)
     where not exists (select from pg_attribute a where a.attrelid = attached.relation and a.attname = k.name and a.attnum > 0 and not a.attisdropped));
$$;
select trunkline._access('_tube_keys_there(trunkline.tube_table)', 'writer');
