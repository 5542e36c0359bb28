/* The rows that a trigger sees, as _broker_watch_events() takes them: a query. */
create or replace function trunkline._broker_watch_rows(watched trunkline.broker_watched_table, rows_ text)
returns text language sql stable as $$
  select format('(select row_number() over () as n, %s as key, %s as image, %s as seen, null::text as error, row(r.*) as it from %I r)',
    trunkline._broker_watch_key(watched), trunkline._broker_watch_image(watched), coalesce('(' || watched.condition || E'\n) is true', 'true'), rows_);
$$;
select trunkline._access('_broker_watch_rows(trunkline.broker_watched_table, text)', 'writer');
