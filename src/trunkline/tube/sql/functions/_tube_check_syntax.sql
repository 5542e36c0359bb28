/* Refuse what cannot be a boolean expression over any table: TL422 with the server's words. */
create or replace function trunkline._tube_check_syntax(expression text)
returns void language plpgsql as $$
begin
  if expression is not null then
    execute format(E'select from (select limit 0) r where (%s\n)', expression);
  end if;
exception
  when syntax_error then
    perform trunkline._raise('TL422', format('%s is not a condition: %s.', quote_literal(left(expression, 200)), sqlerrm),
      'Write a boolean expression over the columns of the tables.');
  when others then null;  -- it names columns: each table tells whether it has them
end $$;
select trunkline._access('_tube_check_syntax(text)', 'writer');
