/* Check a condition of a live table and bring it into its one form: each column with its operators, values as events have them.
   {"org_id": 7} means {"org_id": {"eq": 7}}.  Its shape as terms and as an expression; the shape and the columns that must be
   equal make the hash by which subscriptions are found.  Errors: TL413, TL422. */
create or replace function trunkline._live_condition(relation regclass, condition jsonb,
  out normal jsonb, out terms text[], out expression text, out key_expression text, out names text[])
language plpgsql stable as $$
declare
  limit_ int := trunkline._setting('live.condition_bytes')::int;
  given record;
  part record;
  col record;
  value jsonb;
  places text[] := '{}';
  parts text[] := '{}';
  keys text[] := '{}';
  fault text;
begin
  normal := '{}';
  terms := '{}';
  names := '{}';
  if condition is null or condition = 'null' then
    condition := '{}';
  elsif jsonb_typeof(condition) <> 'object' then
    raise exception using errcode = 'TL422', message = format('a condition is a JSON object of columns, got %s.', left(condition::text, 80)),
      hint = 'For example {"org_id": {"eq": 7}}.';
  elsif octet_length(condition::text) > limit_ then
    raise exception using errcode = 'TL413', message = format('a condition has at most %s bytes, got %s.', limit_, octet_length(condition::text)),
      hint = 'See live.condition_bytes.';
  end if;
  for given in select e.key, e.value from jsonb_each(condition) e order by e.key collate "C" loop
    select c.* into col from trunkline._live_column(relation) c where c.name = given.key;
    if not found then
      raise exception using errcode = 'TL422', message = format('%s has no column "%s" that a condition could name.', relation, left(given.key, 80)),
        hint = 'It has ' || (select string_agg(quote_ident(c.name), ', ' order by c.place) from trunkline._live_column(relation) c) || '.';
    end if;
    names := names || given.key;
    if jsonb_typeof(given.value) <> 'object' or col.kind = 'json' and not trunkline._live_asks(given.value) then
      given.value := jsonb_build_object('eq', given.value);
    elsif given.value = '{}' then
      raise exception using errcode = 'TL422', message = format('the condition says nothing of column "%s".', given.key),
        hint = 'Leave it out, or name an operator: {"eq": 7}.';
    end if;
    for part in select e.key, e.value from jsonb_each(given.value) e order by e.key collate "C" loop
      if part.key <> all (trunkline._live_operators(col.kind, col.is_array)) then
        perform trunkline._raise('TL422', format('"%s" cannot be asked of column "%s", which is %s.', left(part.key, 80), given.key, col.shown),
          case when col.kind = 'other' then 'Conditions cannot speak of columns of this type.'
               else 'It takes ' || array_to_string(trunkline._live_operators(col.kind, col.is_array), ', ') || '.' end);
      end if;
      begin
        if part.key = 'in' then
          if jsonb_typeof(part.value) <> 'array' then
            raise invalid_text_representation using message = format('"in" takes a list, got %s', left(part.value::text, 80));
          end if;
          value := coalesce((select jsonb_agg(trunkline._live_value(v.value, trunkline._live_element(col.shown, col.is_array), col.enum) order by v.place)
                               from jsonb_array_elements(part.value) with ordinality v (value, place)), '[]');
        elsif part.value = 'null' and part.key <> 'eq' then
          raise invalid_text_representation using message = format('"%s" takes a value, got null', part.key);
        elsif part.key = 'icontains' then
          value := to_jsonb(part.value #>> '{}');
        else
          value := trunkline._live_value(part.value, trunkline._live_element(col.shown, col.is_array), col.enum);
        end if;
      exception when data_exception then
        fault := sqlerrm;
        raise exception using errcode = 'TL422', message = format('the condition on column "%s" fits no %s: %s.', given.key, col.shown, fault);
      end;
      normal := normal || jsonb_build_object(given.key, coalesce(normal -> given.key, '{}') || jsonb_build_object(part.key, value));
      terms := terms || (given.key || ' ' || part.key);
      parts := parts || trunkline._live_term(given.key, part.key, col.kind, col.shown, col.is_array, col.collation_name, col.enum, array[given.key, part.key]);
      if part.key = 'eq' and not col.is_array then
        keys := keys || given.key;
      end if;
    end loop;
  end loop;
  expression := coalesce(nullif(array_to_string(parts, ' and '), ''), 'true');
  key_expression := format('hash_record_extended(row(%s), 0)', concat_ws(', ', format('%L::bigint', hashtextextended(format('%s %s %s', relation::oid, terms, expression), 0)),
    (select string_agg(format($term$coalesce(i -> %L, 'null')$term$, k.name), ', ' order by k.place) from unnest(keys) with ordinality k (name, place))));
end $$;
