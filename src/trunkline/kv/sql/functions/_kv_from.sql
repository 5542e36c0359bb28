/* The name of the cursor that tells how far this instance has pulled from another. */
create or replace function trunkline._kv_from(instance text)
returns text language sql immutable as $$ select 'kv:from:' || instance $$;
