/* One operator of a condition as an expression over i (a row as JSON) and c (the condition): true or false, made of functions of
   Postgres alone, and of no type that a user made: whoever made it could make another of its name, and have it run as the owner of this schema.
   enum: the number of the enum.  place: where its value stands in c. */
create or replace function trunkline._live_term(name text, operator text, kind text, type text, is_array boolean, collation_name text, enum oid, place text[])
returns text language sql immutable as $$
  select case
    when operator = 'eq' and is_array then format(
      $term$case when c #> %2$L = 'null' then coalesce(i -> %1$L, 'null') = 'null' else coalesce((i -> %1$L) @> (c #> %2$L), false) end$term$, name, place)
    when operator = 'eq' then format($term$coalesce(i -> %L, 'null') = (c #> %L)$term$, name, place)
    when operator = 'in' and is_array then format(
      $term$(coalesce(i -> %1$L, 'null') = 'null' and (c #> %2$L) @> 'null' or exists (select from jsonb_array_elements(case jsonb_typeof(i -> %1$L) when 'array' then i -> %1$L else '[]' end) x where (c #> %2$L) @> x))$term$,
      name, place)
    when operator = 'in' then format($term$(c #> %L) @> coalesce(i -> %L, 'null')$term$, place, name)
    when operator = 'icontains' and is_array then format(
      $term$exists (select from jsonb_array_elements_text(case jsonb_typeof(i -> %1$L) when 'array' then i -> %1$L else '[]' end) x where strpos(lower(x), lower(c #>> %2$L)) > 0)$term$,
      name, place)
    when operator = 'icontains' then format($term$coalesce(strpos(lower(i ->> %L), lower(c #>> %L)) > 0, false)$term$, name, place)
    else format(case when enum is null then $term$coalesce((i ->> %1$L)::%3$s%5$s %4$s (c #>> %2$L)::%3$s%5$s, false)$term$
                     else $term$coalesce(trunkline._live_rank(%6$L, i ->> %1$L) %4$s trunkline._live_rank(%6$L, c #>> %2$L), false)$term$ end, name, place,
           case kind when 'number' then 'numeric' else type end,
           case operator when 'gt' then '>' when 'gte' then '>=' when 'lt' then '<' when 'lte' then '<=' end, ' collate ' || collation_name, enum) end;
$$;
