/* Note a live table.  Its name is that of the table, with the schema in front where another has that.  TL403. */
create or replace function trunkline._live_put(relation regclass, made_watch boolean, tagged boolean)
returns trunkline.live_table language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  class record;
  stored trunkline.live_table;
begin
  perform trunkline._broker_watch_may(relation);
  lock table trunkline.live_table in share row exclusive mode;  -- two of one name would both find it free
  select t.* into stored from trunkline.live_table t where t.relation = _live_put.relation;
  if found then
    update trunkline.live_table t set tagged = _live_put.tagged where t.relation = _live_put.relation and t.tagged and not _live_put.tagged returning t.* into stored;
    select t.* into stored from trunkline.live_table t where t.relation = _live_put.relation;
    return stored;
  end if;
  select c.relname, n.nspname into class from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = relation;
  insert into trunkline.live_table as t (relation, name, made_watch, tagged)
  values (relation, case when exists (select from trunkline.live_table o where o.name = class.relname) then class.nspname || '.' || class.relname else class.relname end,
          made_watch, tagged)
  returning t.* into stored;
  perform pg_notify('trunkline', 'live:tables');
  return stored;
end $$;
select trunkline._access('_live_put(regclass, boolean, boolean)', 'writer');
