/* The version of what is read after this call: the generation of the server, which rises with a restore and a failover, and its
   WAL position.  generation << 48 | lsn is one number of 63 bits. */
create or replace function trunkline.tube_version(out generation int, out lsn text, out incarnation int)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  incarnation := trunkline.incarnation();
  generation := trunkline._generation(incarnation);  -- a statement of its own, which sees a life that was just noted
  lsn := pg_current_wal_insert_lsn()::text;
end $$;
comment on function trunkline.tube_version() is 'The version of what is read after this call.';
select trunkline._access('tube_version()', 'reader');
