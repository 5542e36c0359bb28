/* The canonical text of an expression without brackets around the whole of it. */
create or replace function trunkline._condition_bare(expression text)
returns text language plpgsql immutable as $$
declare
  inside text;
  balance int;
begin
  loop
    inside := substr(expression, 2, length(expression) - 2);
    -- the first bracket closes with the last one when what is between never closes more than it opened
    select min(d.depth) into balance
      from (select sum(case when m[1] in ('(', '[') then 1 when m[1] in (')', ']') then -1 else 0 end) over (order by place) as depth
              from regexp_matches(inside, $regex$'(?:[^']|'')*'|"(?:[^"]|"")*"|[()\[\]]$regex$, 'g') with ordinality t (m, place)) d;
    exit when expression not like '(%)' or balance < 0;
    expression := inside;
  end loop;
  return expression;
end $$;
