/* Cut the canonical text of an expression at a word wherever that stands outside of brackets and quotes. */
create or replace function trunkline._condition_words(expression text, word text)
returns text[] language plpgsql immutable as $$
declare
  parts text[] := array[''];
  token text;
  depth int := 0;
begin
  for token in select m[1] from regexp_matches(expression, format($regex$'(?:[^']|'')*'|"(?:[^"]|"")*"|[()\[\]]|%s|[^'"()\[\] ]+| $regex$, word), 'g') m loop
    depth := depth + case when token in ('(', '[') then 1 when token in (')', ']') then -1 else 0 end;
    if token = word and depth = 0 then
      parts := array_append(parts, '');
    else
      parts[cardinality(parts)] := parts[cardinality(parts)] || token;
    end if;
  end loop;
  return parts;
end $$;
