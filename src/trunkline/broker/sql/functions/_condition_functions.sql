/* The functions that a tree of _condition_parse() calls, also through operators. */
create or replace function trunkline._condition_functions(tree text)
returns setof oid language sql stable as $$
  select m[1]::oid from regexp_matches(tree, E':(?:funcid|opfuncid|hashfuncid|negfuncid) (\\d+)', 'g') m where m[1] <> '0'
  union
  select o.oprcode from regexp_matches(tree, E':opno (\\d+)', 'g') m join pg_operator o on o.oid = m[1]::oid
  union
  select o.oprcode from regexp_matches(tree, E':opnos \\(o ([\\d ]+)\\)', 'g') m
    cross join regexp_split_to_table(m[1], ' ') n join pg_operator o on o.oid = n::oid;
$$;
