/* Try an expression over a table's columns without reading a row.  TL422 with the server's words when it does not fit. */
create or replace function trunkline._tube_check_expression(relation regclass, expression text, type text)
returns void language plpgsql as $$
begin
  if expression is not null then
    execute format(E'select (%s\n)::%s from %s r limit 0', expression, type, relation);
  end if;
exception when syntax_error_or_access_rule_violation or data_exception or invalid_parameter_value or feature_not_supported then
  perform trunkline._raise('TL422', format('the expression %s does not fit table %s: %s.', quote_literal(expression), relation, sqlerrm),
    format('Write a %s expression over the columns of the table.', type));
end $$;
select trunkline._access('_tube_check_expression(regclass, text, text)', 'writer');
