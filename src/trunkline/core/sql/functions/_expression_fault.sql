/* Why a text is not one SQL expression by itself, in the server's words; NULL when it is: its parentheses, quotes and comments match.
   The text is put into two statements, one of which gives it a parenthesis to close.  Neither can be analysed, because there is no such table: so the
   parser answers, and nothing of the text is looked up or run. */
create or replace function trunkline._expression_fault(expression text)
returns text language plpgsql as $$
declare
  written text;
  portal refcursor;
begin
  foreach written in array array[format(E'select from trunkline."no table" where (%s\n)', expression), format(E'select from trunkline."no table" where true or %s\n or true', expression)] loop
    begin
      open portal for execute written;
    exception when syntax_error then
      return regexp_replace(sqlerrm, '^(unterminated .*?) at or near .*$', E'\\1');
    when others then
      null;
    end;
  end loop;
  return null;
end $$;
select trunkline._access('_expression_fault(text)', 'reader');
