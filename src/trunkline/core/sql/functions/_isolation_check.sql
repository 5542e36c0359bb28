/* Insist on READ COMMITTED where a decision needs a snapshot taken after a lock: an older one would not see
   what was committed meanwhile, and nothing would notice.  TL400 otherwise. */
create or replace function trunkline._isolation_check(action text)
returns void language plpgsql as $$
begin
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    raise exception using errcode = 'TL400', message = format('%s works only in READ COMMITTED, this transaction is %s.',
        action, upper(current_setting('transaction_isolation'))),
      hint = 'Use a transaction of its own.', detail = jsonb_build_object('isolation', current_setting('transaction_isolation'))::text;
  end if;
end $$;
select trunkline._access('_isolation_check(text)', 'reader');
