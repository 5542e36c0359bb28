/* The name of the cursor that tells how far an instance has taken in what is here. */
create or replace function trunkline._kv_to(instance text)
returns text language sql immutable as $$ select 'kv:to:' || instance $$;
