/* The comparisons that one member of the JSON form stands for: word, path and constant.  TL422. */
create or replace function trunkline._condition_members(name text, given jsonb)
returns table (word text, path text, value jsonb) language plpgsql as $$
begin
  if name in ('topic', 'and', 'or', 'not') then
    return query select name, null::text, given;
  elsif name = 'key' then
    return query select case jsonb_typeof(given) when 'array' then 'in' else 'eq' end, name, given;
  elsif name in ('eq', 'in', 'contains', 'range') and (jsonb_typeof(given) <> 'object' or given = '{}') then
    raise exception using errcode = 'TL422', message = format('"%s" is an object of places and what is wanted there, not empty, got %s.', name, left(given::text, 80)),
      hint = format('As in {"%s": {"payload.total": %s}}.', name, case name when 'range' then '{"gte": 10}' when 'in' then '[10, 20]' else '10' end);
  elsif name in ('eq', 'in', 'contains') then
    return query select name, m.key, m.value from jsonb_each(given) m;
  elsif name = 'range' then
    if exists (select from jsonb_each(given) m
                where case when jsonb_typeof(m.value) = 'object' then m.value = '{}' or m.value - array['gt', 'gte', 'lt', 'lte'] <> '{}' else true end) then
      raise exception using errcode = 'TL422', message = format('"range" has for each place an object of "gt", "gte", "lt" and "lte", got %s.', left(given::text, 80)),
        hint = 'As in {"range": {"payload.total": {"gte": 10}}}.';
    end if;
    return query select b.key, m.key, b.value from jsonb_each(given) m cross join lateral jsonb_each(m.value) b;
  else
    raise exception using errcode = 'TL422', message = format('a condition has no member "%s".', left(name, 80)),
      hint = 'Members are "topic", "key", "eq", "in", "range", "contains", "and", "or" and "not".', detail = jsonb_build_object('member', name)::text;
  end if;
end $$;
