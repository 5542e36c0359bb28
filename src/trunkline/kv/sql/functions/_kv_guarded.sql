/* Namespaces in which a privilege, append or read, needs a grant: those that do not give it to all who may call the functions.  A constant, so that a call of
   kv_get() costs nothing for it; _kv_namespace_shared() replaces the function.  Stable, not immutable: only then is the plan of each session that contains the constant renewed. */
create or replace function trunkline._kv_guarded(privilege text)
returns text[] language sql stable as $$ select '{}'::text[] $$;
