/* A segment that this transaction's snapshot still knows was dropped: only a new transaction can go on. */
create or replace function trunkline._log_left()
returns void language plpgsql as $$
begin
  raise exception using errcode = '40001', message = 'could not serialize access: a segment left the log since this transaction began',
    hint = 'Begin a new transaction.';
end $$;
