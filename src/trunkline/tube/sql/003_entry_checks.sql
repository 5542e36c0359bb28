/* The functions that write entries check them: constraints of the table would be prepared anew for every statement, a
   tenth of what capturing a row costs. */
do $$
declare
  part regclass;
  checked text;
begin
  for part in select 'trunkline.tube_entry'::regclass union all select i.inhrelid from pg_inherits i where i.inhparent = 'trunkline.tube_entry'::regclass loop
    foreach checked in array array['shard', 'op', 'control'] loop
      execute format('alter table %s drop constraint if exists tube_entry_%s_check', part, checked);
    end loop;
  end loop;
end $$;
