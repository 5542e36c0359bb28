/* What must be equal wherever a condition in SQL holds, as row expressions over e and over s; NULL when there is no such
   part, or none that is certain not to fail. */
create or replace function trunkline._condition_key(expression text, out event_key text, out subscription_key text)
language plpgsql as $$
begin
  event_key := null;
end $$;
