/* What a condition may ask of a column. */
create or replace function trunkline._live_operators(kind text, is_array boolean)
returns text[] language sql immutable as $$
  select case when kind = 'other' then '{}'::text[]
              when kind = 'json' then array['eq']
              else array['eq', 'in'] || case when kind = 'text' then array['icontains'] else '{}' end
                   || case when is_array or kind = 'boolean' then '{}' else array['gt', 'gte', 'lt', 'lte'] end end;
$$;
