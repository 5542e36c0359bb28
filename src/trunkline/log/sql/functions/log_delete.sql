/* Delete a topic with its messages and groups.  Waits for appends under way, for no reader: the tables are
   dropped by maintenance.  TL404 when there is none. */
create or replace function trunkline.log_delete(topic text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  number int := (trunkline._log_topic_row(topic)).topic_id;
begin
  perform trunkline._lock_briefly();
  perform trunkline._log_may(topic, 'manage');
  perform 1 from trunkline.log_partition p where p.topic_id = number order by p.partition for update;
  delete from trunkline.cursor_key k where k.resource like format('log:%s:%%', number);
  delete from trunkline.party p where p.party like format('log:%s:%%', number);
  -- epochs go on under its name for a day: a member of a group must not be able to commit in a topic that is made anew
  perform trunkline._owners_move(format('log:%s:', number), format('gone:%s:', topic));
  delete from trunkline.owner o where starts_with(o.resource, 'gone:') and o.since < clock_timestamp() - interval '1 day';
  delete from trunkline.log_group g where g.topic_id = number;
  delete from trunkline.log_topic t where t.topic_id = number;
  update trunkline.log_segment s set topic_id = null where s.topic_id = number;
end $$;
comment on function trunkline.log_delete(text) is 'Delete a topic with its messages and groups.';
select trunkline._access('log_delete(text)', 'writer');
