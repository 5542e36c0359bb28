/* The operator that a word of the JSON form stands for. */
create or replace function trunkline._condition_operator(op text)
returns text language sql immutable as $$
  select case op when 'gt' then '>' when 'gte' then '>=' when 'lt' then '<' when 'lte' then '<=' end;
$$;
