/* Before the schema is dropped: take the triggers from one watched table, which could not be written to without it.  Returns
   whether there was one. */
create or replace function trunkline._uninstall_broker()
returns boolean language plpgsql as $$
declare
  present regclass;
begin
  select w.relation into present from trunkline.broker_watched_table w join pg_class c on c.oid = w.relation limit 1;
  return found and trunkline.broker_unwatch(present);
end $$;
