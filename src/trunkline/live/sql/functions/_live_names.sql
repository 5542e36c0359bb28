/* The names of the columns of a table by their numbers, as JSON.  One that was added changes nothing about the others. */
create or replace function trunkline._live_names(relation regclass)
returns jsonb language sql stable as $$
  select coalesce(jsonb_object_agg(a.attnum, a.attname), '{}') from pg_attribute a where a.attrelid = relation and a.attnum > 0 and not a.attisdropped;
$$;
