/* Try an expression over a table's columns without reading a row.  TL422 with the server's words when it does not fit.
   Only columns that triggers see count: not those of the system, nor virtual generated ones. */
create or replace function trunkline._hook_check_expression(relation regclass, expression text, type text)
returns void language plpgsql as $$
begin
  if expression is not null then
    if trunkline._expression_fault(expression) is not null then
      raise syntax_error using message = trunkline._expression_fault(expression);
    end if;
    execute format(case type when 'boolean' then E'select from (select %3$s from %4$s limit 0) r where (%1$s\n)'
                             else E'select (%1$s\n)::%2$s from (select %3$s from %4$s) r limit 0' end, expression, type,
      (select string_agg(format('%I', a.attname), ', ' order by a.attnum) from pg_attribute a
        where a.attrelid = relation and a.attnum > 0 and not a.attisdropped and a.attgenerated <> 'v'), relation);
  end if;
exception when syntax_error_or_access_rule_violation or data_exception or feature_not_supported then
  raise exception using errcode = 'TL422', message = format('the expression %s does not fit table %s: %s.', quote_literal(left(expression, 200)), relation, sqlerrm),
    hint = format('Write %s expression over the columns of the table, virtual ones apart.', case type when 'int' then 'an integer' else 'a ' || type end);
end $$;
select trunkline._access('_hook_check_expression(regclass, text, text)', 'writer');
