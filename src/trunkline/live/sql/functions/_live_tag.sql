/* Note that a table is live by its comment.  TL403. */
create or replace function trunkline._live_tag(relation regclass)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform trunkline._broker_watch_may(relation);
  update trunkline.live_table t set tagged = true where t.relation = _live_tag.relation;
end $$;
select trunkline._access('_live_tag(regclass)', 'writer');
