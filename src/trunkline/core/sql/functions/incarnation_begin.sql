/* Begin another incarnation after this server went back to an earlier state: its files were replaced by an older copy of themselves (a snapshot
   of the volume, cp -a), which changes neither system identifier nor timeline.  Positions, tokens, epochs and checkpoints that were given out
   after the copy was made are refused from then on, and keys begin another life.  Call it before clients write.  Returns its number. */
create or replace function trunkline.incarnation_begin()
returns int language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return (trunkline._incarnation_begin(trunkline._incarnation_row())).incarnation;
end $$;
comment on function trunkline.incarnation_begin() is 'Begin another incarnation, after the files of the server were replaced by an older copy.';
select trunkline._access('incarnation_begin()', 'admin');
