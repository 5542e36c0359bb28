/* What a tree of _condition_parse() holds that a condition may not hold, in words; NULL when nothing.
   Allowed are columns of e and s, constants, logic, comparisons, CASE and the like, and functions and operators of
   Postgres itself that give the same answer to the same question, or depend only on the time (the zone is UTC). */
create or replace function trunkline._condition_fault(tree text)
returns text language sql stable as $$
  select coalesce(
    (select format('%s is not allowed', case m[1]
              when 'SUBLINK' then 'a sub-select' when 'AGGREF' then 'an aggregate' when 'WINDOWFUNC' then 'a window function'
              when 'COERCETODOMAIN' then 'a domain' else lower(m[1]) end)
       from regexp_matches(tree, E'\\{([A-Z_]+)', 'g') with ordinality m (m, place)
      where m[1] <> all (array['QUERY', 'RANGETBLENTRY', 'RTEPERMISSIONINFO', 'ALIAS', 'FROMEXPR', 'RANGETBLREF', 'TARGETENTRY',
              'VAR', 'CONST', 'OPEXPR', 'FUNCEXPR', 'BOOLEXPR', 'NULLTEST', 'BOOLEANTEST', 'DISTINCTEXPR', 'NULLIFEXPR',
              'SCALARARRAYOPEXPR', 'ARRAYEXPR', 'COALESCEEXPR', 'CASEEXPR', 'CASEWHEN', 'CASETESTEXPR', 'MINMAXEXPR',
              'RELABELTYPE', 'COERCEVIAIO', 'ARRAYCOERCEEXPR', 'COLLATEEXPR', 'ROWEXPR', 'ROWCOMPAREEXPR', 'SUBSCRIPTINGREF',
              'SQLVALUEFUNCTION', 'NAMEDARGEXPR']) order by m.place limit 1),
    case when regexp_count(tree, E'\\{QUERY ') <> 1 then 'it is more than one expression' end,
    (select case when m[1] = '0' then 'a whole row is not allowed: name its columns' else 'a system column is not allowed' end
       from regexp_matches(tree, E':varattno (0|-\\d+)', 'g') m limit 1),
    -- beyond 8: current_user and its like
    (select 'only the time may be asked of the session' from regexp_matches(tree, E'\\{SQLVALUEFUNCTION :op (\\d+)', 'g') m where m[1]::int > 8 limit 1),
    (select format('function %s is not allowed', p.oid::regprocedure)
       from trunkline._condition_functions(tree) f join pg_proc p on p.oid = f
      where p.oid >= 16384 or p.pronamespace <> 'pg_catalog'::regnamespace or p.prokind <> 'f' or p.proretset
         or p.proname = any (array['repeat', 'lpad', 'rpad', 'array_fill', 'factorial'])
         or exists (select from unnest(p.proargtypes || p.prorettype) t where t = any (array['internal', 'cstring', 'regclass', 'regtype']::regtype[]))
         or p.provolatile = 'v'
         or p.provolatile = 's' and p.proname ~ '^pg_'
         or p.provolatile = 's' and p.proname <> all (array['now', 'concat', 'concat_ws', 'to_char', 'to_date', 'to_timestamp',
              'to_jsonb', 'jsonb_build_array', 'jsonb_build_object', 'array_to_string', 'jsonb_path_exists_tz', 'jsonb_path_match_tz'])
            and not p.proargtypes::oid[] && array['date', 'time', 'timetz', 'timestamp', 'timestamptz', 'interval']::regtype[]::oid[]
      limit 1),
    (select format('type %s is not allowed', t.oid::regtype)
       from regexp_matches(tree, E':\\w*(?:type|typeid|typeId) (\\d+)', 'g') m join pg_type t on t.oid = m[1]::oid
      where t.oid >= 16384 or t.typnamespace <> 'pg_catalog'::regnamespace or t.typname ~ '^_?(reg|pg_|xml|refcursor|aclitem|cstring|gts)'
         or t.typtype not in ('b', 'r', 'm') and t.oid <> all (array['record', 'unknown']::regtype[])  -- unknown: a text without a cast
      limit 1),
    (select 'only collations of Postgres itself are allowed' from regexp_matches(tree, E':collOid (\\d+)', 'g') m where m[1]::bigint >= 16384 limit 1));
$$;
