/* The timeline that this server writes; a standby writes none.  Not kept in a plan: a pooled session outlives a promotion.  In
   plpgsql, which is called at a third of the price: whoever appends or acknowledges asks. */
create or replace function trunkline._timeline()
returns int language plpgsql stable as $$
begin
  return case when not pg_is_in_recovery() then ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int end;
end $$;
