/* Compile the JSON form of a condition: an expression over e and s that is true or false for every event and never fails,
   the constants, which it reads as s.params #> '{c}', and what must be equal where it holds.  Forms that differ only in
   constants give the same expression.  TL422. */
create or replace function trunkline._condition_compile(form jsonb, out expression text, out constants jsonb, out event_key text, out subscription_key text)
language plpgsql as $$
declare
  whole trunkline.broker_condition_part := trunkline._condition_part(form, '[]', 1);
begin
  expression := whole.expression;
  constants := whole.constants;
  if cardinality(whole.event_keys) > 0 then
    event_key := format('row(%s)', array_to_string(whole.event_keys, ', '));
    subscription_key := format('row(%s)', array_to_string(whole.subscription_keys, ', '));
  end if;
end $$;
