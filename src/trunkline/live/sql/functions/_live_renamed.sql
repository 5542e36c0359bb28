/* Has a column of a live table another name than when it was noted, or is gone?  Then nobody can say what its events mean. */
create or replace function trunkline._live_renamed(relation regclass)
returns boolean language sql stable as $$
  select exists (select from trunkline.live_table t where t.relation = $1 and not trunkline._live_names($1) @> t.column_names);
$$;
