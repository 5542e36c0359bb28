/* Grant the functions of partitions' own to those who have "append" on the topic, of one topic or of all. */
create or replace function trunkline._grant_log_appends(topic text default null)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  select trunkline._log_append_grant(a.name, t.topic)
    from trunkline._log_appends() a join trunkline.log_topic t on t.topic_id = (a.part).topic_id where $1 is null or t.topic = $1;
$$;
