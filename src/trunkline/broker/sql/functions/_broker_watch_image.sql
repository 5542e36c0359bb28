/* A row r of a watched table as JSON: an expression.  Chosen columns come with those of the key, named in the order in which jsonb
   keeps them, shorter names first: to sort them for every row would cost a third as much again. */
create or replace function trunkline._broker_watch_image(watched trunkline.broker_watched_table)
returns text language sql stable as $$
  select case when watched.columns is null
    then concat('(to_jsonb(r.*)', ' || (select to_jsonb(t.*) from (select ' || string_agg(c.term, ', ' order by c.place) filter (where c.expression is not null) || ') t)', ')',
      ' - ' || quote_literal(array_agg(c.name) filter (where c.extra)) || '::text[]')
    else format('(select to_jsonb(t.*) from (select %s) t)',
      string_agg(c.term, ', ' order by octet_length(c.name), c.name collate "C") filter (where c.name = any (watched.columns || watched.key_columns) and not c.extra)) end
    from (select *, case when c.expression is null then format('r.%I', c.name) else format('(%s) as %I', c.expression, c.name) end as term
            from trunkline._broker_watch_columns(watched.relation) c) c;
$$;
select trunkline._access('_broker_watch_image(trunkline.broker_watched_table)', 'reader');
