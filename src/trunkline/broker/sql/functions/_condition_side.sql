/* One side of an equation in canonical text: of whom it speaks ("e", "s", or NULL for both or none), its type, and whether
   it is certain to have a value for every row: made of columns, constants and functions that cannot fail. */
create or replace function trunkline._condition_side(side text, out of text, out type text, out total boolean)
language plpgsql as $$
declare
  parsed record := trunkline._condition_parse(side);
  variables text[] := array(select distinct m[1] from regexp_matches(parsed.tree, E'\\{VAR :varno (\\d+)', 'g') m);
begin
  type := parsed.type;
  -- Postgres 15 counts two more tables in a view
  of := case when variables in ('{1}', '{3}') then 'e' when variables in ('{2}', '{4}') then 's' end;
  total := not exists (
      select from regexp_matches(parsed.tree, E'\\{([A-Z_]+)', 'g') m
       where m[1] <> all (array['QUERY', 'RANGETBLENTRY', 'RTEPERMISSIONINFO', 'ALIAS', 'FROMEXPR', 'RANGETBLREF', 'TARGETENTRY',
               'VAR', 'CONST', 'OPEXPR', 'FUNCEXPR', 'COALESCEEXPR', 'RELABELTYPE', 'SUBSCRIPTINGREF']))
    and not exists (
      select from trunkline._condition_functions(parsed.tree) f join pg_proc p on p.oid = f
       where p.proname <> all (array['jsonb_object_field', 'jsonb_object_field_text', 'jsonb_array_element', 'jsonb_array_element_text',
               'jsonb_extract_path', 'jsonb_extract_path_text', 'lower', 'upper', 'btrim']));
end $$;
