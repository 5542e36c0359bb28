/* The watch of a table; NULLs when there is none. */
create or replace function trunkline._broker_watch_row(relation regclass)
returns trunkline.broker_watched_table language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select w.* from trunkline.broker_watched_table w where w.relation = $1;
$$;
select trunkline._access('_broker_watch_row(regclass)', 'reader');
