/* Refuse what cannot be a boolean expression over any table: TL422 with the server's words. */
create or replace function trunkline._tube_check_syntax(expression text)
returns void language plpgsql as $$
declare
  fault text := case when expression is not null then trunkline._expression_fault(expression) end;
begin
  if fault is not null then
    raise exception using errcode = 'TL422', message = format('%s is not a condition: %s.', quote_literal(left(expression, 200)), fault),
      hint = 'Write a boolean expression over the columns of the tables.';
  end if;
end $$;
select trunkline._access('_tube_check_syntax(text)', 'writer');
