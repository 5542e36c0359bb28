/* After the grants of a topic changed: let the right roles call the functions of its partitions. */
create or replace function trunkline._log_topic_shared(topic text)
returns void language plpgsql as $$
begin
  perform trunkline._routines_lock();
  perform trunkline._grant_log_appends(topic);
end $$;
