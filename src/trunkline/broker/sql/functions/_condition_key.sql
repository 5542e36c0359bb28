/* What must be equal wherever a condition in SQL holds, as row expressions over e and over s; NULL when there is nothing of
   the kind.  Only sides that cannot fail count: they are computed for every event, whatever else the condition says. */
create or replace function trunkline._condition_key(expression text, out event_key text, out subscription_key text)
language plpgsql as $$
declare
  parts text[] := array[expression];
  part text;
  sides text[];
  of_event text[] := '{}';
  of_subscription text[] := '{}';
  a record;
  b record;
begin
  while cardinality(parts) > 0 and cardinality(of_event) < 8 loop
    part := trunkline._condition_bare(parts[1]);
    parts := parts[2:];
    sides := trunkline._condition_words(part, ' AND ');
    if cardinality(sides) > 1 then
      parts := sides || parts;
      continue;
    end if;
    sides := trunkline._condition_words(part, ' = ');
    continue when cardinality(sides) <> 2 or sides[2] ~ E'^(ANY|ALL) \\(';  -- one of several is no equation
    a := trunkline._condition_side(sides[1]);
    b := trunkline._condition_side(sides[2]);
    continue when a.type is distinct from b.type or not (a.total and b.total);
    if a.of = 'e' and b.of = 's' then
      of_event := of_event || sides[1];
      of_subscription := of_subscription || sides[2];
    elsif a.of = 's' and b.of = 'e' then
      of_event := of_event || sides[2];
      of_subscription := of_subscription || sides[1];
    end if;
  end loop;
  if cardinality(of_event) > 0 then
    event_key := format('row(%s)', array_to_string(of_event, ', '));
    subscription_key := format('row(%s)', array_to_string(of_subscription, ', '));
  end if;
end $$;
