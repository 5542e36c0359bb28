/* Do the triggers of a watched table mark what they write?  Those from before there were marks do not, until the table is watched again. */
create or replace function trunkline._broker_watch_marks(watched trunkline.broker_watched_table)
returns boolean language sql stable as $$
  select coalesce((select position('broker_watch_pass' in p.prosrc) > 0 from pg_proc p where p.oid = to_regprocedure(trunkline._broker_watch_function(watched) || '()')), false);
$$;
