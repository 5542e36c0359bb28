/* The version of what is read after this call: the life of the server and its WAL position. */
create or replace function trunkline.tube_version(out incarnation int, out lsn text)
language sql security definer set search_path = pg_catalog, pg_temp as $$
  select trunkline.incarnation(), pg_current_wal_insert_lsn()::text;
$$;
comment on function trunkline.tube_version() is 'The version of what is read after this call.';
select trunkline._access('tube_version()', 'reader');
