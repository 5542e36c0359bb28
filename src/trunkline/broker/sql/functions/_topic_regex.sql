/* A pattern of topics as a regular expression: words are separated by dots, * stands for one word, # for any number of
   them, also none.  TL422 when it is no pattern. */
create or replace function trunkline._topic_regex(pattern text)
returns text language plpgsql immutable as $$
declare
  words text[] := string_to_array(pattern, '.');
  word text;
  regex text := '^';
  dotted boolean := false;
begin
  if pattern is null or length(pattern) not between 1 and 255 or pattern ~ '[[:cntrl:]]' or pattern ~ '[^.][*#]|[*#][^.]' then
    raise exception using errcode = 'TL422', message = format('%s is not a pattern of topics.', coalesce(quote_literal(left(pattern, 80)), 'NULL')),
      hint = 'Words are separated by dots; * stands for one whole word, # for any number of them: "orders.*", "orders.#", "#.failed".';
  end if;
  for place in 1 .. cardinality(words) loop
    word := words[place];
    if word = '#' then
      regex := regex || case when dotted then E'(\\..*)?' when place = cardinality(words) then '.*' else E'(.*\\.)?' end;
    else
      regex := regex || case when dotted then E'\\.' else '' end
        || case word when '*' then '[^.]+' else regexp_replace(word, E'([\\\\^$+?()\\[\\]{}|])', E'\\\\\\1', 'g') end;
      dotted := true;
    end if;
  end loop;
  return regex || '$';
end $$;
