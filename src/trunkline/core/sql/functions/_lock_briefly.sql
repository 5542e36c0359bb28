/* Called by what locks rows that others wait for: bound how long this transaction may hold them.  From here on it may be
   idle no longer than lease.ttl; then the server ends its session (25P03), and the locks with it.  A session that has
   set idle_in_transaction_session_timeout keeps what it has set.  Nothing in a transaction of one statement, which is
   never idle: hot callers look at that themselves.  See docs/explanation/locks.md. */
create or replace function trunkline._lock_briefly()
returns void language plpgsql as $$
begin
  if now() <> statement_timestamp() and current_setting('idle_in_transaction_session_timeout') = '0' then
    perform set_config('idle_in_transaction_session_timeout',
      ceil(1000 * extract(epoch from least(trunkline._setting('lease.ttl')::interval, interval '7 days')))::bigint::text, true);
  end if;
end $$;
