/* Is there the role that conditions in SQL run as, and do the functions that run them belong to it? */
create or replace function trunkline._condition_sandboxed()
returns boolean language sql stable as $$
  select count(*) = 2 from pg_proc p join pg_roles r on r.oid = p.proowner
   where p.oid in ('trunkline._condition_run(text, trunkline.broker_match_event[])'::regprocedure, 'trunkline._condition_parse(text)'::regprocedure)
     and r.rolname = 'trunkline_matcher' and not r.rolsuper;
$$;
