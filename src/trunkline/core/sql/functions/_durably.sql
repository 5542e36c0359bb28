/* Have the transaction wait for the disk when it commits, whatever the session, the role or the database say: what is acknowledged
   is durable.  Called where something is written that a caller is told of, if synchronous_commit is off. */
create or replace function trunkline._durably()
returns void language plpgsql as $$
begin
  perform set_config('synchronous_commit', 'on', true);
end $$;
