/* A duty of maintain(): live subscriptions end with the process that served them, tables that were dropped are no longer live, columns
   that changed are noted, and shapes that nobody uses are forgotten.  Returns whether there is more. */
create or replace function trunkline.live_expire()
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  many int;
begin
  delete from trunkline.live_process p where p.process in (
    select i.process from trunkline.live_process i where not trunkline._lease_living(i.process) limit 100);
  get diagnostics many = row_count;
  perform trunkline._live_end(t.relation) from trunkline.live_table t
    where not exists (select from pg_class c where c.oid = t.relation) or not exists (select from trunkline.broker_watched_table w where w.relation = t.relation);
  perform trunkline._live_note(t.relation) from trunkline.live_table t;
  delete from trunkline.live_shape h where h.shape_id in (
    select i.shape_id from trunkline.live_shape i
     where not exists (select from trunkline.live_subscription s where s.shape_id = i.shape_id) for update skip locked limit 1000);
  return many >= 100;
end $$;
comment on function trunkline.live_expire() is 'Live subscriptions end with the process that served them; a duty of maintain().';
select trunkline._access('live_expire()', 'admin');
insert into trunkline.duty (duty, rank) values ('live_expire', 76) on conflict do nothing;
