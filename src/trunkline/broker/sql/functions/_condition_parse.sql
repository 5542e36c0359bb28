/* How the server understands an expression over e and s: its tree, its canonical text and its type.  Belongs to
   trunkline_matcher.  Nothing is executed: the cursor over EXPLAIN is opened for the parser to insist on one statement,
   and a view with the same text is made only to look at.  Raises whatever the server says;
   what is cut short ends in a column that is called so. */
create or replace function trunkline._condition_parse(expression text, out tree text, out canonical text, out type text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set datestyle = 'ISO, YMD' set intervalstyle = 'postgres'
set quote_all_identifiers = off set standard_conforming_strings = on set transform_null_equals = off set array_nulls = on
set extra_float_digits = 1 as $$
declare
  name text := 'trunkline_condition_' || replace(gen_random_uuid()::text, '-', '');
  written text := 'select (' || expression || E'\n)';
  relations text := ' from trunkline.broker_match_event e, trunkline.broker_match_subscription s';
  head text := ' SELECT';
  tail text := E' AS holds\n   FROM trunkline.broker_match_event e,\n    trunkline.broker_match_subscription s;';
  portal refcursor;
  columns int;
begin
  open portal for execute 'explain ' || written || ' "its end"' || relations;
  close portal;
  execute 'create temp view ' || name || ' as ' || written || ' as holds' || relations;
  select r.ev_action::text, pg_get_viewdef(r.ev_class), format_type(a.atttypid, null), c.relnatts into strict tree, canonical, type, columns
    from pg_rewrite r join pg_class c on c.oid = r.ev_class join pg_attribute a on a.attrelid = r.ev_class and a.attnum = 1
   where r.ev_class = ('pg_temp.' || name)::regclass;
  execute 'drop view pg_temp.' || name;
  if columns <> 1 or not (starts_with(canonical, head) and right(canonical, length(tail)) = tail) then
    raise exception using errcode = 'syntax_error', message = 'it is more than one expression';
  end if;
  canonical := btrim(substr(canonical, length(head) + 1, length(canonical) - length(head) - length(tail)), E' \n');
end $$;
