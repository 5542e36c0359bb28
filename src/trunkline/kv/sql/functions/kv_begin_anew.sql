/* Begin another life of this copy: for one whose peers have forgotten it.  It copies everything from them and learns which of its keys were deleted.  Nothing is done when a later life than
   the named one began already.  Returns the origin of the present life. */
create or replace function trunkline.kv_begin_anew(origin bigint)
returns bigint language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  present trunkline.kv_life := trunkline._kv_life();
begin
  if present.origin = origin then
    present := trunkline._kv_life_begin();
  end if;
  return present.origin;
end $$;
comment on function trunkline.kv_begin_anew(bigint) is 'Begin another life of this copy, for one whose peers have forgotten it.';
select trunkline._access('kv_begin_anew(bigint)', 'admin');
