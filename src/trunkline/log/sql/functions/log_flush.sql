/* Make durable what was appended with release_early: a commit of its own that waits for the disk and for
   synchronous standbys, and with it everything committed before. */
create or replace function trunkline.log_flush()
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if current_setting('synchronous_commit') = 'off' then perform trunkline._durably(); end if;
  -- only a transaction that wrote something waits for the disk; this writes to the WAL and to nothing else
  perform pg_logical_emit_message(true, 'trunkline', '');
end $$;
comment on function trunkline.log_flush() is 'Wait until everything committed before is durable.';
select trunkline._access('log_flush()', 'writer');
