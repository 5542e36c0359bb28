/* Compile the JSON form of a condition: an expression over e and s that never fails, and the constants that it reads from
   s.params #> '{c}'.  TL422. */
create or replace function trunkline._condition_compile(form jsonb, out expression text, out constants jsonb, out event_key text, out subscription_key text)
language plpgsql as $$
begin
  if form <> '{}' then
    perform trunkline._raise('TL422', 'not yet');
  end if;
  expression := 'true';
  constants := '[]';
end $$;
